"""What the chief tells the world about training: metrics, TensorBoard scalars, status and progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from determined import core
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.metrics import Columns, Metrics
from determined.pytorch.progress import Progress
from determined.pytorch.state import TrialState
from determined.tensorboard.events import EventFileWriter
from determined.tensorboard.metric_writers.base import Row, is_scalar, validation_rows


class Reporter:
    """Reports on the chief; on other ranks every method does nothing."""

    def __init__(self, core_context: core.Context, context: PyTorchTrialContext, progress: Progress) -> None:
        self._train = core_context.train
        self._context = context
        self._chief = context.distributed.rank == 0
        self.progress = progress
        self._events: EventFileWriter | None = None
        self._status = ""
        self._told_at = -math.inf

    def status(self, text: str) -> None:
        if self._chief and text != self._status:
            self._status = text
            self._train.set_status(text)

    def fraction_done(self, fraction: float) -> None:
        """Nobody reads this more often than once a second; the end is always told."""
        now = time.monotonic()
        if self._chief and (fraction >= 1 or now - self._told_at >= 1):
            self._told_at = now
            self._train.report_progress(fraction)

    def training(self, state: TrialState, metrics: Metrics, columns: Columns) -> None:
        """Report a workload: its averages and reducers, and to TensorBoard each batch's values."""
        if not self._chief:
            add_counters(metrics, state)
            return
        if self._context.get_enable_tensorboard_logging():
            self._write_series(state.batches_trained, columns)
            self._write_rows(
                (f"Determined/{name}", state.batches_trained, float(value))
                for name, value in metrics.items()
                if name not in columns and is_scalar(value)
            )
        self.progress.training(metrics)
        add_counters(metrics, state)
        self._train.report_training_metrics(state.batches_trained, metrics)

    def validation(self, state: TrialState, metrics: Metrics) -> None:
        if self._chief:
            if self._context.get_enable_tensorboard_logging():
                self._write_rows(validation_rows(state.batches_trained, metrics))
            self.progress.validation(state.batches_trained, metrics)
        add_counters(metrics, state)
        if self._chief:
            self._train.report_validation_metrics(state.batches_trained, metrics)

    def best_validation(self) -> float | None:
        return self._train.get_experiment_best_validation() if self._chief else None

    def close(self) -> None:
        self.progress.close()
        if self._events is not None:
            self._events.close()
        if self._context._summary_writer is not None:
            self._context._summary_writer.flush()

    def _write_series(self, batches: int, columns: Columns) -> None:
        self._write_rows(
            (f"Determined/{name}", batches - len(column) + position, float(value))
            for name, column in columns.items()
            if not isinstance(column, np.ndarray)
            for position, value in enumerate(column)
            if is_scalar(value)
        )
        names = [
            name
            for name, column in columns.items()
            if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind != "c"
        ]
        if not names:
            return
        values = np.stack([columns[name].astype(np.float64) for name in names], axis=1)
        steps = np.arange(batches - len(values), batches)
        if self._context._summary_writer is None:
            writer = self._event_writer()
            writer.add_series([f"Determined/{name}" for name in names], steps, values)
            writer.flush()
            return
        self._write_rows(
            (f"Determined/{name}", int(step), float(value))
            for step, row in zip(steps, values, strict=True)
            for name, value in zip(names, row, strict=True)
        )

    def _write_rows(self, rows: Iterable[Row]) -> None:
        """Through the program's own writer once it asked for one, so that one file is written at a time."""
        rows = list(rows)
        if not rows:
            return
        summary_writer: Any = self._context._summary_writer
        if summary_writer is None:
            writer = self._event_writer()
            writer.add_scalars(rows)
            writer.flush()
            return
        for tag, step, value in rows:
            summary_writer.add_scalar(tag, value, step)
        summary_writer.flush()

    def _event_writer(self) -> EventFileWriter:
        if self._events is None:
            self._events = EventFileWriter(self._context.get_tensorboard_path())
        return self._events


def add_counters(metrics: Metrics, state: TrialState) -> None:
    """Every report says how far training is, unless the trial reports those names itself."""
    metrics.setdefault("batches", state.batches_trained)
    metrics.setdefault("epochs", state.epochs_trained)
