"""`torch_batch_process`: run a processor over a data set, resuming after an interruption."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from determined import core
from determined.core.ranks.agreement import in_step
from determined.pytorch.experimental.batches import Batches, Progress
from determined.pytorch.experimental.processor import TorchBatchProcessor, TorchBatchProcessorContext
from determined.pytorch.experimental.progress_checkpoint import restore_progress, save_progress
from determined.pytorch.ranks import process_group

logger = logging.getLogger("determined.pytorch")


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
    """Process every batch of a map-style data set once, distributed round-robin over the ranks.

    Args:
        batch_processor_cls: the processor class; each rank creates one instance.
        dataset: a map-style data set.
        batch_size: records in a batch; 1 if neither this nor `dataloader_kwargs` specifies it.
        max_batches: the maximum number of batches per rank.
        checkpoint_interval: the number of batches of each rank after which progress is saved.
        dataloader_kwargs: further options of `torch.utils.data.DataLoader`; `shuffle=True`, `sampler`,
            `batch_sampler` and a second `batch_size` raise ValueError.
        distributed_context: the ranks; by default those of the launcher.
        latest_checkpoint: resume after the progress in this checkpoint; by default, in that of the newest checkpoint of
            the experiment, if there is one.
    """
    _check_positive("checkpoint_interval", checkpoint_interval)
    if max_batches is not None:
        _check_positive("max_batches", max_batches)
    # Before the run is opened, so that invalid options leave no record.
    batches = Batches(dataset, batch_size, dataloader_kwargs)
    with initialize_default_inference_context(distributed_context) as core_context:
        start = _begin(core_context, latest_checkpoint or core_context.info.latest_checkpoint, batches)
        context = TorchBatchProcessorContext(core_context, start.batches)
        processor = batch_processor_cls(context)
        run = _Run(processor, context, core_context, batches, start, checkpoint_interval, max_batches)
        if run.process_all():
            processor.on_finish()
            run.report()
        run.settle()


@contextmanager
def initialize_default_inference_context(
    distributed: core.DistributedContext | None = None,
) -> Iterator[core.Context]:
    """Open a run on the given ranks, or on those that the launcher started, and yield its core context."""
    with process_group.joined(distributed) as ranks, core.init(distributed=ranks) as core_context:
        yield core_context


def _check_positive(name: str, value: Any) -> None:
    """Raise ValueError, naming the argument, unless the value is an integer from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is a whole number from 1 on, got {value!r}")


def _begin(core_context: core.Context, checkpoint: str | None, batches: Batches) -> Progress:
    """Restore progress, start an attempt in the run's record, and delete uploads that the progress does not cover."""
    ranks = core_context.distributed
    start = restore_progress(core_context, checkpoint, batches)
    in_step(
        ranks.allgather,
        ranks.rank,
        lambda: core_context.begin_attempt(checkpoint=checkpoint, steps_completed=start.batches),
        doing="opening the run's record",
    )
    core_context._outputs.begin(start.batches, checkpoint)
    return start


class _Run:
    """The batches of one rank from the restored progress on, processed in intervals."""

    def __init__(
        self,
        processor: TorchBatchProcessor,
        context: TorchBatchProcessorContext,
        core_context: core.Context,
        batches: Batches,
        start: Progress,
        interval: int,
        max_batches: int | None,
    ) -> None:
        self._processor = processor
        self._context = context
        self._core = core_context
        self._batches = batches
        self._interval = interval
        self._start = start
        self._ranks = core_context.distributed
        self._done = self._saved = start.batches
        total = start.batches + batches.per_rank(start, self._ranks.size)
        # The limit counts batches over all attempts, like `_done`.
        self._total = total if max_batches is None else min(total, max_batches)

    def process_all(self) -> bool:
        """Process the remaining batches; return True when all are done, or False after a stop request."""
        loader = iter(self._batches.loader(self._start, self._ranks.size, self._ranks.rank))
        while self._done < self._total:
            self._process_interval(loader)
            # On every rank, before the collective: results that are still in memory are uploaded here.
            self._processor.on_checkpoint_start()
            self._save()
            # After the save, so that a stop loses no batch. Not after the last one, when nothing is left to resume.
            if self._done < self._total and self._core.preempt.should_preempt():
                return False
        return True

    def report(self) -> None:
        """Report the metrics of the reducers over all ranks, on the chief."""
        metrics = self._context.reduce_metrics(for_training=False)
        # All ranks reduce, since that is a collective; only the chief reports.
        if not metrics or self._ranks.rank != 0:
            return
        if self._start.batches:
            logger.warning(
                "the reducers' metrics are those of the batches from %d on: earlier ones were processed before the "
                "restart, and reducers are not saved",
                self._start.batches,
            )
        # An attempt that processed no batch has no metrics, and must not replace those of the previous attempt.
        if self._done > self._start.batches:
            self._core.train.report_validation_metrics(self._done, metrics)

    def settle(self) -> None:
        """Delete the files that uploads have replaced, after the last progress was saved."""
        # The chief has saved the last progress when this collective ends, so replaced files are not needed any more.
        self._ranks.allgather(None)
        self._core._outputs.covered(self._done)

    def _process_interval(self, loader: Iterator[Any]) -> None:
        """Process this rank's batches up to the end of the current interval."""
        # Intervals are counted from batch 0, so that a resumed process saves at the same batches.
        stop = min(self._total, (self._done // self._interval + 1) * self._interval)
        # A rank with fewer batches than the others ends early and waits for them at the end of the interval.
        own = zip(range(self._done, stop), itertools.islice(loader, stop - self._done), strict=False)
        for batch_idx, batch in own:
            self._context._batches_begun = batch_idx + 1
            self._processor.process_batch(batch=batch, batch_idx=batch_idx)
        self._done = self._context._batches_begun = stop

    def _save(self) -> None:
        """Save the progress of all ranks, on the chief."""
        before = self._saved
        self._ranks.allgather(None)  # all ranks must have uploaded their results before progress covers them
        # The chief has reached this point, so the previous progress is saved.
        self._core._outputs.covered(before)
        self._saved = self._done
        if self._ranks.rank == 0:
            progress = self._batches.progress(self._start, self._done, self._ranks.size)
            save_progress(self._core, progress, self._ranks.size)
            self._core.train.report_progress(self._done / self._total)
