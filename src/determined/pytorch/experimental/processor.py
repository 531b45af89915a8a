"""`TorchBatchProcessor`: the base class of users' batch processors, and its context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from determined import core
from determined.pytorch.data.device import choose_device, to_device
from determined.pytorch.metrics.reducer import MetricReducer, ReducerContext


class TorchBatchProcessorContext:
    """The interface of a processor to its run: device, uploads, reports, reducers and ranks."""

    def __init__(self, core_context: core.Context, batches_begun: int = 0) -> None:
        self._core = core_context
        self._batches_begun = batches_begun  # of this rank over all attempts, including the one in progress
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
        """Return a model moved to this rank's device and switched to evaluation mode."""
        return model.to(self.device).eval()

    def get_tensorboard_path(self) -> Path:
        """Return the directory in which this run's TensorBoard event files are written."""
        return self._core.train.get_tensorboard_path()

    @contextmanager
    def upload_path(self) -> Iterator[Path]:
        """Yield an empty directory; its files are stored as `rank_<n>/<file>` of the trial's output afterwards.

        Each rank may call it at any time, independently of the others. The files of one block appear together when it
        ends without an error; a file replaces an earlier one with the same name. After a restart, uploads made during a
        batch that the restored progress does not cover are deleted.
        """
        with self._core._outputs.upload(lambda: self._batches_begun) as path:
            yield path

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics, from any rank; see `core.TrainContext.report_metrics`."""
        self._core.train.report_metrics(group, steps_completed, metrics)

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """Record that this run uses a checkpoint; see `core.Context.experimental`."""
        self._core.experimental.report_task_using_checkpoint(checkpoint)

    def report_task_using_model_version(self, model_version: Any) -> None:
        """Record that this run uses a model version; see `core.Context.experimental`."""
        self._core.experimental.report_task_using_model_version(model_version)

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Register a reducer over the data set and all ranks; its metric is reported in the group `validation`."""
        return self._reducers.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """Reset all reducers."""
        self._reducers.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """Return the metrics of the reducers for training or for validation. All ranks must call it."""
        return self._reducers.reduce_metrics(for_training)

    def run_cross_slot_reduction(self, reducables: Sequence[Any], gathered: Sequence[Any]) -> dict[str, Any]:
        """Return the metrics of `reducables`, computed from the values that were gathered from all ranks."""
        return self._reducers.run_cross_slot_reduction(reducables, gathered)


class TorchBatchProcessor(ABC):
    """Base class of batch processors, which process a data set one batch at a time."""

    @abstractmethod
    def __init__(self, context: TorchBatchProcessorContext) -> None:
        """Create models here, with `context.prepare_model_for_inference`."""

    @abstractmethod
    def process_batch(self, batch: Any, batch_idx: int) -> None:
        """Process one batch; `batch_idx` counts the batches of this rank over all attempts, from 0.

        Gradients are recorded as usual: use `torch.no_grad()` or `torch.inference_mode()` where they are not needed.
        """

    def on_checkpoint_start(self) -> None:
        """Called before progress is saved: upload results that are still in memory, or a restart loses them."""

    def on_finish(self) -> None:
        """Called after the last batch, and again if a completed process is started again."""
