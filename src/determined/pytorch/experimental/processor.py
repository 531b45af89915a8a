"""TorchBatchProcessor: what a user writes to process a data set batch by batch."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from determined import core
from determined.pytorch.device import choose_device, to_device
from determined.pytorch.reducer import MetricReducer, ReducerContext


class TorchBatchProcessorContext:
    """What a processor may ask for."""

    def __init__(self, core_context: core.Context) -> None:
        self._core = core_context
        self.distributed = core_context.distributed
        self.device = choose_device(self.distributed.size, self.distributed.local_rank)
        self._reducers = ReducerContext(self.distributed.allgather)
        self._warned_types: set[type] = set()

    def to_device(self, data: Any) -> Any:
        """Move data to this rank's device; batches are not moved by themselves."""
        return to_device(data, self.device, self._warned_types)

    def prepare_model_for_inference(self, model: torch.nn.Module) -> torch.nn.Module:
        """Move a model to this rank's device and switch it to eval mode."""
        return model.to(self.device).eval()

    def get_tensorboard_path(self) -> Path:
        """Where TensorBoard files go."""
        return self._core.train.get_tensorboard_path()

    @contextmanager
    def upload_path(self) -> Iterator[Path]:
        """A directory whose files are stored when the block ends: all ranks enter it in step, each has its own."""
        with tempfile.TemporaryDirectory() as directory:
            own = Path(directory) / f"rank_{self.distributed.rank}"
            own.mkdir()
            yield own
            self._core.checkpoint.upload(directory, {"steps_completed": 0}, shard=True)

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics; only the chief's are kept."""
        if self.distributed.rank == 0:
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
        """Register a metric over the whole data set and all ranks; it is reported in the group `inference`."""
        return self._reducers.wrap_reducer(reducer, name, for_training, for_validation)


class TorchBatchProcessor(ABC):
    """Processes a data set one batch at a time."""

    @abstractmethod
    def __init__(self, context: TorchBatchProcessorContext) -> None:
        """Make models here, with `context.prepare_model_for_inference`."""

    @abstractmethod
    def process_batch(self, batch: Any, batch_idx: int) -> None:
        """Process one batch; `batch_idx` counts the batches of this rank."""

    def on_checkpoint_start(self) -> None:
        """Before progress is saved: bring results that are still in memory to a safe place."""

    def on_finish(self) -> None:
        """After the last batch."""
