"""The metric helpers of earlier releases under their old names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from determined.core.distributed import DistributedContext
from determined.pytorch.metrics import Kept, Metrics, columns_of, combine, rows_of
from determined.pytorch.reducer import Reducer, as_numpy, reducers_by_name

__all__ = [
    "_average_training_metrics",
    "_convert_metrics_to_numpy",
    "_prepare_metrics_reducers",
    "_process_combined_metrics_and_batches",
]


def _convert_metrics_to_numpy(metrics: Metrics) -> Metrics:
    """Replace tensors in a dict of metrics by arrays, in place, and return the dict."""
    for name, value in metrics.items():
        metrics[name] = as_numpy(value)
    return metrics


def _process_combined_metrics_and_batches(
    combined_metrics_and_batches: Sequence[tuple[Mapping[str, Any], int]],
) -> tuple[dict[str, list[Any]], list[int]]:
    """Return, for pairs of metrics and a number of batches by rank, the values by name and the numbers.

    Ranks without a batch are left out.
    """
    present = [(metrics, batches) for metrics, batches in combined_metrics_and_batches if batches]
    names = present[0][0] if present else {}
    return {name: [metrics[name] for metrics, _ in present] for name in names}, [batches for _, batches in present]


def _average_training_metrics(metrics: list[Metrics], distributed: DistributedContext) -> list[Metrics]:
    """Return, on the chief, the metrics of each batch averaged over ranks; on other ranks the given ones.

    Every rank must call it, with the same number of batches.
    """
    per_rank = distributed.gather(metrics)
    if per_rank is None:
        return metrics
    kept = [Kept() for _ in per_rank]
    for one, rows in zip(kept, per_rank, strict=True):
        for row in rows:
            one.keep(row)
    return rows_of(combine([columns_of(one, "train_batch()") for one in kept]), kept[0])


def _prepare_metrics_reducers(reducer: Any, keys: Any) -> dict[str, Reducer]:
    return reducers_by_name(reducer, list(keys))
