"""Metric values as numbers: which values count as numbers, and the training time that a report gives.

Worker, runner, store and display must agree on both, so everything that compares metric values uses these functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

NotFinite = Literal["NaN", "Infinity", "-Infinity"]


def number(value: Any) -> float | None:
    """Return a metric value as a float, or None if it is not a number.

    NaN and the infinities are numbers; truth values and texts are not. An integer beyond the range of a float becomes
    an infinity, so that it counts as non-finite instead of raising OverflowError.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def finite_number(value: Any) -> float | None:
    """Return a metric value as a float if it can be compared with others: not NaN, not infinite, not text."""
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


def is_finite(value: Any) -> bool:
    """Return whether a metric value is a finite number."""
    return finite_number(value) is not None


def json_value(value: float) -> float | str:
    """Return a number as JSON can represent it: NaN and the infinities, which JSON does not have, as texts."""
    return value if is_finite(value) else not_finite(value)


def not_finite(value: float) -> NotFinite:
    """Return the text for a number that is not finite."""
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def time_of(time_metric: str | None, steps_completed: int, metrics: Mapping[str, Any]) -> float | None:
    """Return the training time of a validation in units of the time metric, or None if the report has none.

    NaN and infinity count as none: a worker that took infinity as reaching its goal would wait there forever.
    """
    if time_metric is None:
        return None
    # Every report has a number of batches, so this time metric needs no value in it.
    return finite_number(metrics.get(time_metric, steps_completed if time_metric == "batches" else None))
