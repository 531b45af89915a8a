"""`ReportWindow`: the training metrics since the last report, to be combined over ranks or saved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from determined.pytorch.checkpoint.state_codec import Encoded, encoded, problems_in
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.metrics.batch_metrics import (
    BatchMetrics,
    Columns,
    Metrics,
    average,
    columns_of,
    combine,
    rows_of,
)
from determined.pytorch.metrics.reducer import ReducerContext

logger = logging.getLogger("determined.pytorch")


class ReportWindow:
    """The metrics that `train_batch` returned since the last report, and the values of custom reducers since then."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self._device = context.device
        self._reducers: ReducerContext = context._reducers
        self._not_numbers = context._not_numbers
        self.batches = BatchMetrics()

    def begin(self) -> None:
        """Start a workload, unless a workload that was interrupted by a checkpoint continues."""
        # Reducers keep the values that were restored from a checkpoint inside a workload.
        if not self.batches:
            self._reducers.reset_reducers()

    def clear(self) -> None:
        """Start a new window after a report."""
        self.batches = BatchMetrics()

    def mine(self) -> tuple[Columns, list[Any]]:
        """Return this rank's part of a report: its batch metrics as columns, and the values of its reducers."""
        parts = self._reducers.per_slot(for_training=True) if self.batches else []
        return columns_of(self.batches, "train_batch()"), parts

    def combine(self, ranks: Sequence[tuple[Columns, list[Any]]]) -> tuple[Columns, Metrics]:
        """Return the mean over ranks for each batch, and the metrics to report."""
        columns = combine([rank_columns for rank_columns, _ in ranks])
        self._not_numbers.check(columns, "train_batch()")
        metrics = average(columns)
        selected = self._reducers.selected(for_training=True)
        if selected and self.batches:  # empty if all batches were skipped, which is the same on every rank
            metrics.update(self._reducers.run_cross_slot_reduction(selected, [parts for _, parts in ranks]))
        return columns, metrics

    def rows(self, columns: Columns) -> list[Metrics]:
        """Return the columns as one dict per batch."""
        return rows_of(columns, self.batches)

    def state_dict(self) -> Encoded | None:
        """Return the encoded metrics for a checkpoint within a workload, or None at the end of one."""
        if not self.batches:
            return None
        state = {"batches": _storable(list(self.batches)), "reducers": _storable(self._reducers.states())}
        kept = encoded(state, "metrics")
        problems = problems_in(kept.tree)
        if problems:
            # A warning and not an error: the weights are worth more than the metrics of a few batches.
            logger.warning("the next report will miss the batches before this checkpoint: %s", problems[0])
            return None
        return kept

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the metrics of an interrupted workload."""
        for batch in _restored(state["batches"], self._device):
            self.batches.append(batch)
        self._reducers.load_states(_restored(state["reducers"], self._device))


_DEVICE = "determined/device"
_ARRAY, _TUPLE = "determined/array", "determined/tuple"  # used in checkpoints of earlier versions


def _storable(value: Any) -> Any:
    """Return the value with accelerator tensors copied to the host and marked, so that they can be moved back."""
    if isinstance(value, torch.Tensor):
        return value.detach() if value.is_cpu else {_DEVICE: value.detach().cpu()}
    if type(value) in (list, tuple):
        return type(value)(_storable(item) for item in value)
    if type(value) is dict:
        return {key: _storable(item) for key, item in value.items()}
    return value


def _restored(value: Any, device: torch.device) -> Any:
    """Return the value that `_storable` was called with."""
    if type(value) in (list, tuple):
        return type(value)(_restored(item, device) for item in value)
    if type(value) is not dict:
        return value
    if value.keys() == {_ARRAY}:
        return value[_ARRAY].numpy()
    if value.keys() == {_TUPLE}:
        return tuple(_restored(item, device) for item in value[_TUPLE])
    if value.keys() == {_DEVICE}:
        return value[_DEVICE].to(device)
    return {key: _restored(item, device) for key, item in value.items()}
