"""`Scalars`: write metrics as TensorBoard scalars, collected for up to a second and written together."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.metrics.batch_metrics import Columns, Metrics
from determined.tensorboard.metric_writers.base import Row, is_scalar, validation_rows

if TYPE_CHECKING:
    from determined.tensorboard.events import EventFileWriter

logger = logging.getLogger("determined.pytorch")

_SECONDS_TO_COLLECT = 1.0  # viewers poll less often, and each write costs training time


class Scalars:
    """Writes scalars to the run's event file, or through the program's `SummaryWriter` once it has asked for one.

    If the file cannot be written, for example on a full disk, it logs a warning and stops writing: the store holds the
    same metrics, so training need not end.
    """

    def __init__(self, context: PyTorchTrialContext) -> None:
        self._context = context
        self._events: EventFileWriter | None = None
        self._series: list[tuple[int, Columns]] = []
        self._rows: list[Row] = []
        self._written_at = -math.inf
        self._given_up = False

    @property
    def _wanted(self) -> bool:
        """Whether scalars are written: the program can disable them, and an error ends them."""
        return self._context.get_enable_tensorboard_logging() and not self._given_up

    def training(self, batches: int, metrics: Metrics, columns: Columns) -> None:
        """Collect the values of each batch at its index, and metrics of the complete workload at its end."""
        if not self._wanted:
            return
        self._series.append((batches, {name: column for name, column in columns.items() if _is_series(column)}))
        for name, column in columns.items():
            # Lists contain values that are not numbers for some batches; those that are get written one by one.
            if not isinstance(column, np.ndarray):
                first = batches - len(column)
                self._rows += [
                    (f"Determined/{name}", first + position, float(value))
                    for position, value in enumerate(column)
                    if is_scalar(value)
                ]
        # More metrics than columns are those of custom reducers, which have one value per workload.
        if len(metrics) > len(columns):
            self._rows += [
                (f"Determined/{name}", batches, float(value))
                for name, value in metrics.items()
                if name not in columns and is_scalar(value)
            ]
        if time.monotonic() - self._written_at >= _SECONDS_TO_COLLECT:
            self.flush()

    def validation(self, batches: int, metrics: Metrics) -> None:
        """Write the metrics of a validation at once."""
        if self._wanted:
            self._rows += validation_rows(batches, metrics)
            # At once: validations are rare, and users wait for them.
            self.flush()

    def flush(self) -> None:
        """Write the collected scalars; on an OSError give up writing."""
        try:
            self._write()
        except OSError as error:
            self._give_up(error)
        self._series, self._rows = [], []
        self._written_at = time.monotonic()

    def _write(self) -> None:
        """Write the collected series and rows; series with the same names are joined and written at once."""
        # Consecutive reports with the same names are one series; a changed set of names begins another.
        for names, group in itertools.groupby(self._series, key=lambda one: tuple(one[1])):
            members = list(group)
            if names:
                values = [
                    np.concatenate([columns[name].astype(np.float64) for _, columns in members]) for name in names
                ]
                steps = [np.arange(end - len(columns[names[0]]), end) for end, columns in members]
                self._write_series([f"Determined/{name}" for name in names], np.concatenate(steps), np.stack(values, 1))
        self._write_rows(self._rows)

    def _give_up(self, error: OSError) -> None:
        """Stop writing scalars after an error, with one warning."""
        # Before anything else that can fail, so that no further write is attempted.
        self._given_up = True
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(OSError):  # closing tries to write the rest of its buffer
                events.close()
        logger.warning(
            "TensorBoard files in %s are not written any more: %s", self._context.get_tensorboard_path(), error
        )

    def close(self) -> None:
        """Write the collected scalars and close the event file."""
        self.flush()
        if self._events is not None:
            self._events.close()

    def _write_series(self, tags: list[str], steps: Any, values: Any) -> None:
        """Write several series with common steps, in one call if the library writes the event file itself."""
        # Asked at each write: the program may ask for its writer at any time, and two writers would make two files.
        if self._context._summary_writer is not None:
            self._write_rows(
                (tag, int(step), float(value))
                for step, row in zip(steps, values, strict=True)
                for tag, value in zip(tags, row, strict=True)
            )
            return
        writer = self._event_writer()
        writer.add_series(tags, steps, values)
        writer.flush()

    def _write_rows(self, rows: Iterable[Row]) -> None:
        """Write single scalars."""
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
        """Return the writer of the run's event file, created at first use."""
        if self._events is None:
            from determined.tensorboard.events import EventFileWriter  # with the first report

            self._events = EventFileWriter(self._context.get_tensorboard_path())
        return self._events


def _is_series(column: Any) -> bool:
    """Return whether a column has one real number per batch."""
    return isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind != "c"
