"""The `MetricWriter` interface, and the rules by which reported metrics become TensorBoard scalars."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Scalar = int | float
Row = tuple[str, int, float]


class MetricWriter(ABC):
    """The interface of a writer of scalars."""

    @abstractmethod
    def add_scalar(self, name: str, value: Scalar | np.ndarray[Any, Any], step: int) -> None:
        """Write one value."""

    @abstractmethod
    def reset(self) -> None:
        """Close the current file; the next write opens a new one."""

    @abstractmethod
    def flush(self) -> None:
        """Write everything to disk."""


class BatchMetricWriter:
    """Writes the metrics of training and validation steps to a `MetricWriter`."""

    def __init__(self, writer: MetricWriter) -> None:
        self.writer = writer

    def on_train_step_end(
        self,
        steps_completed: int,
        metrics: Mapping[str, Any],
        batch_metrics: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Write the metrics of a training workload."""
        self._write(training_rows(steps_completed, metrics, batch_metrics))

    def on_validation_step_end(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Write the metrics of a validation."""
        self._write(validation_rows(steps_completed, metrics))

    def _write(self, rows: Iterator[Row]) -> None:
        """Write rows and flush the writer."""
        for tag, step, value in rows:
            self.writer.add_scalar(tag, value, step)
        self.writer.flush()


def training_rows(
    steps_completed: int,
    metrics: Mapping[str, Any],
    batch_metrics: Sequence[Mapping[str, Any]] | None,
) -> Iterator[Row]:
    """Yield (tag, step, value) for training metrics.

    Per-batch values are at the index of their batch; those that exist only for the complete workload are at its end.
    """
    batch_metrics = batch_metrics or []
    # A batch counts from 0, so the first one of the workload is at the number of batches before it.
    first = steps_completed - len(batch_metrics)
    for position, batch in enumerate(batch_metrics):
        for name, value in batch.items():
            if is_scalar(value):
                yield f"Determined/{name}", first + position, float(value)
    per_batch = batch_metrics[0].keys() if batch_metrics else ()
    for name, value in metrics.items():
        if name not in per_batch and is_scalar(value):
            yield f"Determined/{name}", steps_completed, float(value)


def validation_rows(steps_completed: int, metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield (tag, step, value) for validation metrics."""
    for name, value in metrics.items():
        if is_scalar(value):
            yield f"Determined/{validation_name(name)}", steps_completed, float(value)


def validation_name(name: str) -> str:
    """Return the name of a validation metric, prefixed with `val_` unless it begins with "val"."""
    return name if str(name).startswith("val") else f"val_{name}"


def is_scalar(value: Any) -> bool:
    """Return whether a value can be written: a number or a 0-d array of numbers.

    Arrays of shape (1,), vectors, strings and None are not scalars.
    """
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "fiub"
    if isinstance(value, int):
        # `float` raises OverflowError for larger integers.
        return abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.number, np.bool_)) and not isinstance(value, np.complexfloating)
