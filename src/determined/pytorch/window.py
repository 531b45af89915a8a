"""The training metrics since the last report: kept batch by batch, combined over ranks, and saved if training stops."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from determined.pytorch import checkpoint_format
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.metrics import Columns, Kept, Metrics, average, columns_of, combine, rows_of
from determined.pytorch.reducer import ReducerContext

logger = logging.getLogger("determined.pytorch")


class Window:
    """What `train_batch` returned since the last report, and what custom reducers have seen."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self._device = context.device
        self._reducers: ReducerContext = context._reducers
        self.batches = Kept()

    def begin(self) -> None:
        """A workload begins; one that a checkpoint cut in two goes on."""
        if not self.batches:
            self._reducers.reset_reducers()

    def clear(self) -> None:
        self.batches = Kept()

    def mine(self) -> tuple[Columns, list[Any]]:
        """This rank's half of a report."""
        return columns_of(self.batches, "train_batch()"), self._reducers.per_slot(for_training=True)

    def combine(self, ranks: Sequence[tuple[Columns, list[Any]]]) -> tuple[Columns, Metrics]:
        """All ranks' halves: the mean over ranks for each batch, and the metrics to report."""
        columns = combine([rank_columns for rank_columns, _ in ranks])
        metrics = average(columns)
        selected = self._reducers.selected(for_training=True)
        if selected:
            metrics.update(self._reducers.run_cross_slot_reduction(selected, [parts for _, parts in ranks]))
        return columns, metrics

    def rows(self, columns: Columns) -> list[Metrics]:
        return rows_of(columns, self.batches)

    def state_dict(self) -> dict[str, Any] | None:
        """For a checkpoint in the middle of a workload; None at its end."""
        if not self.batches:
            return None
        try:
            state = {"batches": _storable(self.batches), "reducers": _storable(self._reducers.states())}
            return dict(checkpoint_format.plain(state, "metrics"))
        except TypeError as error:
            logger.warning("the next report will miss the batches before this checkpoint: %s", error)
            return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for batch in state["batches"]:
            self.batches.append(
                {name: value.to(self._device) if _is_scalar_tensor(value) else value for name, value in batch.items()}
            )
        self._reducers.load_states(state["reducers"])


def _is_scalar_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _storable(value: Any) -> Any:
    """Arrays as tensors, tensors on the CPU, whatever holds them."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()) if value.dtype.kind in "fiub" else value
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return value
