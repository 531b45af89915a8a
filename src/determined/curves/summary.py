"""Statistics of a metric: count, last, smallest, largest and mean value, and how many values are not finite.

Does not import numpy, which takes longer than to summarize the reports of most trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from determined.config.metric_values import is_finite, number
from determined.store.records import Metric

Summary = dict[str, dict[str, dict[str, Any]]]  # by group and name


class Statistics(NamedTuple):
    """The statistics of a list of values; `joined_statistics` computes those of two lists from those of each.

    `points` is the number of values, `kind` their common JSON type, "string" if they differ. `others` is the number of
    values that are not numbers. `total` is the sum of the numbers, `low` and `high` are the extremes of those that are
    finite; None if there are none. `non_finite` is the number of numbers that are NaN or infinite. `last_number` is the
    last number if the last value is not a number; otherwise None.
    """

    points: int
    last: Any
    kind: str
    total: float | None = None
    low: float | None = None
    high: float | None = None
    non_finite: int = 0
    others: int = 0
    last_number: float | None = None

    def plain(self) -> dict[str, Any]:
        """Return the statistics as commands and the SDK show them; sum, mean and extremes only if all are numbers."""
        shown = {"count": self.points, "last": self.last, "type": self.kind}
        return {**shown, **self.of_numbers()} if self.kind == "number" else shown

    def of_numbers(self) -> dict[str, Any]:
        """Return sum, mean and extremes of the values that are numbers; an empty dict if there are none."""
        if self.total is None:
            return {}
        last = self.newest_number if is_finite(self.newest_number) else number(self.newest_number)
        return {
            "sum": self.total,
            "mean": self.mean,
            "min": last if self.low is None else self.low,
            "max": last if self.high is None else self.high,
        }

    @property
    def mean(self) -> float | None:
        """The mean of the numbers; None if there are none."""
        return None if self.total is None else (number(self.total) or 0.0) / (self.points - self.others)

    @property
    def newest_number(self) -> float | None:
        """The last value that is a number; None if none is."""
        return self.last_number if number(self.last) is None else self.last


def statistics_of(values: Sequence[Any]) -> Statistics:
    """Return the statistics of values, of which there is at least one, in the order of their reports."""
    kinds = {_KINDS.get(kind, "string") for kind in set(map(type, values))}
    if kinds != {"number"}:
        kind = kinds.pop() if len(kinds) == 1 else "string"
        numbers = [value for value in values if number(value) is not None]
        if not numbers:
            return Statistics(len(values), values[-1], kind, others=len(values))
        last_number = None if number(values[-1]) is not None else numbers[-1]
        return statistics_of(numbers)._replace(
            points=len(values),
            last=values[-1],
            kind=kind,
            others=len(values) - len(numbers),
            last_number=last_number,
        )
    try:
        total = sum(values)
        # Then all values are finite, unless integers beyond the range of a float cancel each other.
        if math.isfinite(total) and all(map(math.isfinite, extremes := (min(values), max(values)))):
            return Statistics(len(values), values[-1], "number", total, *extremes)
    except OverflowError:  # an integer, or a partial sum of integers, is beyond the range of a float
        total = _total([number(value) or 0.0 for value in values])
    finite = [value for value in values if is_finite(value)]
    low, high = (min(finite), max(finite)) if finite else (None, None)
    return Statistics(len(values), values[-1], "number", total, low, high, len(values) - len(finite))


def joined_statistics(first: Statistics | None, second: Statistics | None) -> Statistics | None:
    """Return the statistics of two lists of values, of which `second` was reported later; None without values."""
    if first is None or second is None:
        return first or second
    totals = [total for total in (first.total, second.total) if total is not None]
    lows = [low for low in (first.low, second.low) if low is not None]
    highs = [high for high in (first.high, second.high) if high is not None]
    newest = first.newest_number if second.newest_number is None else second.newest_number
    return Statistics(
        first.points + second.points,
        second.last,
        first.kind if first.kind == second.kind else "string",
        _total(totals) if totals else None,
        min(lows, default=None),
        max(highs, default=None),
        first.non_finite + second.non_finite,
        first.others + second.others,
        None if number(second.last) is not None else newest,
    )


def summarize(reports: Iterable[Metric]) -> Summary:
    """Return the statistics of each metric by group and name."""
    values: dict[str, dict[str, list[Any]]] = {}
    for row in sorted(reports, key=lambda row: (row.group, row.steps_completed or 0)):
        in_group = values.setdefault(row.group, {})
        for name, value in row.metrics.items():
            in_group.setdefault(name, []).append(value)
    return {
        group: {name: statistics_of(reported).plain() for name, reported in metrics.items()}
        for group, metrics in values.items()
    }


_KINDS = {
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
    str: "string",
}


def _total(values: Sequence[float]) -> float:
    """Return the sum; integers that exceed the range of a float count as infinite."""
    try:
        return sum(values)
    except OverflowError:
        return sum(number(value) or 0.0 for value in values)
