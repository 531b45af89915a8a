"""Keeps the newest validation that a trial reported."""

from __future__ import annotations

from dataclasses import dataclass

from determined.config.metric_values import finite_number
from determined.searchers.base import Validated


@dataclass
class NewestValidation:
    """The time and the metric of the newest validation; None where no finite value was reported."""

    time: float | None = None
    metric: float | None = None

    def record(self, event: Validated) -> None:
        """Record a validation unless it is older than the present one: after a crash, reports may be repeated."""
        time = finite_number(event.time)
        if time is not None and self.time is not None and time < self.time:
            return
        # A report without a time still brings a newer metric.
        self.time = time if time is not None else self.time
        self.metric = finite_number(event.metric)
