"""The newest validation of a trial."""

from __future__ import annotations

from dataclasses import dataclass

from determined.config.measures import finite_number
from determined.searchers.base import Validated


@dataclass
class Latest:
    """What was reported at the largest time so far; None where nothing usable was."""

    time: float | None = None
    metric: float | None = None

    def take(self, event: Validated) -> None:
        """Remember a report, unless it is older than the one we have: after a crash reports may come again."""
        time = finite_number(event.time)
        if time is not None and self.time is not None and time < self.time:
            return
        self.time = time if time is not None else self.time
        self.metric = finite_number(event.metric)
