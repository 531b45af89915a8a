"""torch_batch_process: run a processor over a data set, remembering how far it came."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, SequentialSampler

from determined import core
from determined.pytorch.experimental.inference_context import initialize_default_inference_context
from determined.pytorch.experimental.processor import TorchBatchProcessor, TorchBatchProcessorContext
from determined.pytorch.samplers import adapt_batch_sampler

logger = logging.getLogger("determined.pytorch")

_PROGRESS_FILE = "batch_process.json"
_OWN_OPTIONS = {"dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}
_DEFAULT_BATCH_SIZE = 1


def torch_batch_process(
    batch_processor_cls: type[TorchBatchProcessor],
    dataset: Any,
    batch_size: int | None = None,
    max_batches: int | None = None,
    checkpoint_interval: int = 5,
    dataloader_kwargs: dict[str, Any] | None = None,
    distributed_context: core.DistributedContext | None = None,
    *,
    latest_checkpoint: str | None = None,
) -> None:
    """Process every batch of a map-style data set once, dealt out over the ranks.

    Args:
        batch_processor_cls: the processor; each rank makes one.
        dataset: a map-style data set.
        batch_size: records in a batch (1 if not given).
        max_batches: at most so many batches of each rank.
        checkpoint_interval: how many batches of a rank lie between two moments at which progress is saved.
        dataloader_kwargs: further options of the torch loader.
        distributed_context: the ranks; those of the launcher if not given.
        latest_checkpoint: go on from this checkpoint; the experiment's own if there is one.
    """
    _check(dataset, max_batches, checkpoint_interval, dataloader_kwargs or {})
    with initialize_default_inference_context(distributed_context) as core_context:
        checkpoint = latest_checkpoint or core_context.info.latest_checkpoint
        ranks = core_context.distributed
        done = _batches_done(core_context, checkpoint)
        sampler = BatchSampler(SequentialSampler(dataset), batch_size or _DEFAULT_BATCH_SIZE, drop_last=False)
        mine = adapt_batch_sampler(sampler, skip=done, num_replicas=ranks.size, rank=ranks.rank)
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=mine, **(dataloader_kwargs or {}))
        total = max(ranks.allgather(-(-(len(sampler) - ranks.rank) // ranks.size)))
        if max_batches is not None:
            total = min(total, max_batches)
        context = TorchBatchProcessorContext(core_context)
        _process(batch_processor_cls(context), context, core_context, iter(loader), done, total, checkpoint_interval)


def _process(
    processor: TorchBatchProcessor,
    context: TorchBatchProcessorContext,
    core_context: core.Context,
    batches: Iterator[Any],
    done: int,
    total: int,
    interval: int,
) -> None:
    chief = core_context.distributed.rank == 0
    with torch.no_grad():
        while done < total:
            stop = min(total, (done // interval + 1) * interval)
            # A rank with fewer batches than the others runs out early, and meets them all the same.
            for batch_idx, batch in zip(range(done, stop), itertools.islice(batches, stop - done), strict=False):
                processor.process_batch(batch=batch, batch_idx=batch_idx)
            done = stop
            processor.on_checkpoint_start()
            _save(core_context, done)
            if chief:
                core_context.train.report_progress(done / total)
            if done < total and core_context.preempt.should_preempt():
                return
        processor.on_finish()
    metrics = context._reducers.reduce_metrics(for_training=False)
    if metrics and chief:
        core_context.train.report_metrics("inference", done, metrics)


def _save(core_context: core.Context, done: int) -> None:
    ranks = core_context.distributed
    ranks.allgather(None)  # every rank's results are safe before progress says so
    if ranks.rank == 0:
        with core_context.checkpoint.store_path({"steps_completed": done}) as (directory, _):
            progress = {"batches_per_rank": done, "ranks": ranks.size}
            (directory / _PROGRESS_FILE).write_text(json.dumps(progress))


def _batches_done(core_context: core.Context, checkpoint: str | None) -> int:
    if checkpoint is None:
        return 0
    with core_context.checkpoint.restore_path(checkpoint) as directory:
        progress = json.loads((directory / _PROGRESS_FILE).read_text())
    # With another number of ranks, what is surely done is what all of the old ones had done together.
    return int(progress["batches_per_rank"]) * int(progress["ranks"]) // core_context.distributed.size


def _check(dataset: Any, max_batches: int | None, interval: int, options: dict[str, Any]) -> None:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise ValueError(f"torch_batch_process takes a map-style data set, got {type(dataset).__name__}")
    if interval < 1:
        raise ValueError(f"checkpoint_interval is 1 or more, got {interval!r}")
    if max_batches is not None and max_batches < 1:
        raise ValueError(f"max_batches is 1 or more, got {max_batches!r}")
    taken = sorted(_OWN_OPTIONS & options.keys())
    if taken:
        raise ValueError(f"dataloader_kwargs cannot hold {', '.join(taken)}: torch_batch_process decides about that")
