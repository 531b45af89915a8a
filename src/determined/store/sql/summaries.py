"""Summary statistics of a trial's metrics, such as count, minimum, maximum and mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from determined.config.metric_values import is_finite, number
from determined.store.records import Metric

Summary = dict[str, dict[str, dict[str, Any]]]  # by group and name


def summarize(reports: Iterable[Metric]) -> Summary:
    """Return count, sum, min, max, mean and last value of numeric metrics, and count and last value of others."""
    values: dict[str, dict[str, list[Any]]] = {}
    # By step, so that the last value is that of the largest step and not that of the latest report.
    for row in sorted(reports, key=lambda row: (row.group, row.steps_completed or 0)):
        in_group = values.setdefault(row.group, {})
        for name, value in row.metrics.items():
            in_group.setdefault(name, []).append(value)
    return {
        group: {name: _summary(reported) for name, reported in metrics.items()} for group, metrics in values.items()
    }


def _summary(values: list[Any]) -> dict[str, Any]:
    """Return count, last value, and of numbers the minimum, maximum, mean and sum."""
    kind = _kind(values)
    summary: dict[str, Any] = {"count": len(values), "last": values[-1], "type": kind}
    if kind == "number":
        # Integers beyond the range of a float are replaced by infinity, because Python raises OverflowError when it
        # adds them to floats or divides them.
        values = [value if is_finite(value) else number(value) for value in values]
        finite = [value for value in values if is_finite(value)]
        try:
            total = sum(values)
        except OverflowError:  # a partial sum of integers is beyond that range
            total = sum(map(float, values))
        summary |= {
            "sum": total,
            "mean": (number(total) or 0.0) / len(values),
            "min": min(finite, default=values[-1]),
            "max": max(finite, default=values[-1]),
        }
    return summary


def _kind(values: list[Any]) -> str:
    """Return the common type of the values, or "string" if they differ."""
    kinds = {_kind_of_one(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else "string"


def _kind_of_one(value: Any) -> str:
    """Return the type of a value, as the summary names it."""
    if isinstance(value, bool):  # before int, of which bool is a subclass
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    return "null" if value is None else "string"
