"""The metric helpers of earlier releases under their old names."""

from __future__ import annotations

from typing import Any

from determined.pytorch.metrics import Kept, Metrics, columns_of, combine, rows_of
from determined.pytorch.reducer import Reducer, as_numpy, reducers_by_name

__all__ = [
    "_average_training_metrics",
    "_convert_metrics_to_numpy",
    "_prepare_metrics_reducers",
    "_process_combined_metrics_and_batches",
]


def _convert_metrics_to_numpy(metrics: Metrics) -> Metrics:
    """Tensors of a metrics dict as arrays, in place."""
    for name, value in metrics.items():
        metrics[name] = as_numpy(value)
    return metrics


def _process_combined_metrics_and_batches(
    combined: list[tuple[list[Metrics], int]],
) -> tuple[list[list[Metrics]], list[int]]:
    """What ranks gathered, without those that gathered no batch."""
    present = [(metrics, batches) for metrics, batches in combined if batches]
    return [metrics for metrics, _ in present], [batches for _, batches in present]


def _average_training_metrics(per_rank: list[list[Metrics]]) -> list[Metrics]:
    """Per batch, the mean over ranks."""
    kept = [Kept() for _ in per_rank]
    for one, rows in zip(kept, per_rank, strict=True):
        for row in rows:
            one.keep(row)
    return rows_of(combine([columns_of(one, "train_batch()") for one in kept]), kept[0])


def _prepare_metrics_reducers(reducer: Any, keys: Any) -> dict[str, Reducer]:
    return reducers_by_name(reducer, list(keys))
