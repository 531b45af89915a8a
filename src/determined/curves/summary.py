"""Statistics of a metric: count, last, smallest, largest and mean value, and how many values are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from determined.curves.read import Column, Key

Summary = dict[str, dict[str, dict[str, Any]]]  # by group and name


def summarize(columns: dict[Key, Column]) -> Summary:
    """Return the statistics of each metric by group and name.

    The smallest and the largest value are finite, if any value is. A metric with other values than numbers has a count,
    a last value and a type only; the type is "string" if they differ.
    """
    found: Summary = {}
    for (group, name), column in columns.items():
        found.setdefault(group, {})[name] = _of_others(column) if column.others else _of_numbers(column)
    return found


def _of_numbers(column: Column) -> dict[str, Any]:
    values = column.values
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore", invalid="ignore"):  # a sum beyond the range of a float is infinite, not an error
        total = float(values.sum())
    last = float(values[-1])
    return {
        "count": len(values),
        "last": column.as_reported(last),
        "type": "number",
        "sum": column.as_reported(total),
        "mean": total / len(values),
        "min": column.as_reported(float(finite.min()) if len(finite) else last),
        "max": column.as_reported(float(finite.max()) if len(finite) else last),
        "non_finite": len(values) - len(finite),
    }


def _of_others(column: Column) -> dict[str, Any]:
    kinds = {_kind(value) for _, value in column.others} | ({"number"} if len(column.values) else set())
    last_step, last = column.others[-1]
    if len(column.values) and column.steps[-1] > last_step:
        last = column.as_reported(float(column.values[-1]))
    return {
        "count": len(column.values) + len(column.others),
        "last": last,
        "type": kinds.pop() if len(kinds) == 1 else "string",
    }


def _kind(value: Any) -> str:
    """Return the JSON type of a value that is not a number."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    return "null" if value is None else "string"
