"""Private metric helpers of earlier releases, kept under their old names for programs that import them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from determined.core.distributed import DistributedContext
from determined.pytorch.metrics.batch_metrics import BatchMetrics, Metrics, columns_of, combine, rows_of
from determined.pytorch.metrics.reducer import Reducer, as_numpy, reducers_by_name

__all__ = [
    "_average_training_metrics",
    "_convert_metrics_to_numpy",
    "_prepare_metrics_reducers",
    "_process_combined_metrics_and_batches",
]


def _convert_metrics_to_numpy(metrics: Metrics) -> Metrics:
    """Replace tensors in a dict of metrics by numpy arrays, in place, and return the dict."""
    for name, value in metrics.items():
        metrics[name] = as_numpy(value)
    return metrics


def _process_combined_metrics_and_batches(
    combined_metrics_and_batches: Sequence[tuple[Mapping[str, Any], int]],
) -> tuple[dict[str, list[Any]], list[int]]:
    """Return the metric values by name, one per rank, and the number of batches of each rank.

    The argument is one pair (metrics, number of batches) per rank. Ranks without a batch are left out.
    """
    present = [(metrics, batches) for metrics, batches in combined_metrics_and_batches if batches]
    names = present[0][0] if present else {}
    return {name: [metrics[name] for metrics, _ in present] for name in names}, [batches for _, batches in present]


def _average_training_metrics(metrics: list[Metrics], distributed: DistributedContext) -> list[Metrics]:
    """Average the metrics of each batch over ranks and return them on the chief; other ranks get their own back.

    Every rank must call this function, with the same number of batches.
    """
    per_rank = distributed.gather(metrics)
    # Only the chief receives the values of all ranks.
    if per_rank is None:
        return metrics
    kept = [BatchMetrics() for _ in per_rank]
    for one, rows in zip(kept, per_rank, strict=True):
        for row in rows:
            one.keep(row)
    return rows_of(combine([columns_of(one, "train_batch()") for one in kept]), kept[0])


def _prepare_metrics_reducers(reducer: Any, keys: Any) -> dict[str, Reducer]:
    """Return the reducer for each metric name; `reducer` is one for all metrics or a dict by name."""
    return reducers_by_name(reducer, list(keys))
