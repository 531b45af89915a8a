"""Numbers in a report: what counts as one, and how far a trial is by it. Worker and runner must agree on both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def number(value: Any) -> float | None:
    """The value as a number; NaN and the infinities are numbers, truth values and texts are not."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def time_of(time_metric: str | None, steps_completed: int, metrics: Mapping[str, Any]) -> float | None:
    """How far a trial is, by a report of its validation; None if that cannot be told."""
    if time_metric is None:
        return None
    return number(metrics.get(time_metric, steps_completed if time_metric == "batches" else None))
