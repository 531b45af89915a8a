"""TorchBatchProcessor: what a user writes to process a data set batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from determined import core
from determined.pytorch.device import choose_device, to_device
from determined.pytorch.reducer import MetricReducer, ReducerContext


class TorchBatchProcessorContext:
    """The tools of a processor: device, uploads, reports, reducers, ranks."""

    def __init__(self, core_context: core.Context, batches_begun: int = 0) -> None:
        self._core = core_context
        self._batches_begun = batches_begun  # of this rank, over all attempts, the one under way included
        self.distributed = core_context.distributed
        self.device = choose_device(self.distributed.size, self.distributed.local_rank)
        self._reducers = ReducerContext(self.distributed.allgather)
        self._warned_types: set[type] = set()

    def get_hparams(self) -> dict[str, Any]:
        """Return the hyperparameters of the trial."""
        return self._core.info.trial.hparams

    def get_distributed_rank(self) -> int:
        """Return the number of this rank, from 0."""
        return self.distributed.rank

    def get_distributed_size(self) -> int:
        """Return the number of ranks."""
        return self.distributed.size

    def to_device(self, data: Any) -> Any:
        """Move data to this rank's device; the loader leaves batches on the CPU."""
        return to_device(data, self.device, self._warned_types)

    def prepare_model_for_inference(self, model: torch.nn.Module) -> torch.nn.Module:
        """Move a model to this rank's device and switch it to eval mode."""
        return model.to(self.device).eval()

    def get_tensorboard_path(self) -> Path:
        """Return the directory for TensorBoard files."""
        return self._core.train.get_tensorboard_path()

    @contextmanager
    def upload_path(self) -> Iterator[Path]:
        """Yield an empty directory whose files are stored as `rank_<n>/<file>` of the trial's output afterwards.

        Each rank calls it at any time, independently of the others. The files of one block appear together, when it
        ends without an error; a file replaces an earlier one of the same name. After a restart, uploads that the
        restored progress does not cover are removed: those made while a later batch was processed.
        """
        with self._core.outputs.upload(lambda: self._batches_begun) as path:
            yield path

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics, from any rank; see `core.TrainContext.report_metrics`."""
        self._core.train.report_metrics(group, steps_completed, metrics)

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """See `core.Context.experimental`."""
        self._core.experimental.report_task_using_checkpoint(checkpoint)

    def report_task_using_model_version(self, model_version: Any) -> None:
        """See `core.Context.experimental`."""
        self._core.experimental.report_task_using_model_version(model_version)

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Register a metric over the whole data set and all ranks; it is reported in the group `validation`."""
        return self._reducers.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """Make all reducers forget what they have seen."""
        self._reducers.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """Return the metrics of the reducers for training, or for validation; all ranks must call it together."""
        return self._reducers.reduce_metrics(for_training)

    def run_cross_slot_reduction(self, reducables: Sequence[Any], gathered: Sequence[Any]) -> dict[str, Any]:
        """Return the metrics made of what the ranks gathered: the second half of `reduce_metrics`."""
        return self._reducers.run_cross_slot_reduction(reducables, gathered)


class TorchBatchProcessor(ABC):
    """Processes a data set one batch at a time."""

    @abstractmethod
    def __init__(self, context: TorchBatchProcessorContext) -> None:
        """Make models here, with `context.prepare_model_for_inference`."""

    @abstractmethod
    def process_batch(self, batch: Any, batch_idx: int) -> None:
        """Process one batch; `batch_idx` counts the batches of this rank over all attempts, from 0.

        Gradients are recorded as usual: use `torch.no_grad()` or `torch.inference_mode()` where they are not needed.
        """

    def on_checkpoint_start(self) -> None:
        """Called before progress is saved: upload results that are still in memory."""

    def on_finish(self) -> None:
        """Called after the last batch, and again when a process that was complete is started again."""
