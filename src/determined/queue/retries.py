"""How often, and after which pause, the runner of an experiment is started again."""

from __future__ import annotations

import time
from collections.abc import Collection

PAUSES = (1.0, 5.0, 25.0)  # after the first failure in a row, the second, the third; then it is given up
_SECONDS_OF_SUCCESS = 60.0  # whoever ran that long has not failed in a row


class Retries:
    """Of experiments in the queue, by their order there."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}

    def failed(self, order: int, seconds: float) -> float | None:
        """A runner has failed after so many seconds: how long to wait for the next one; None to give up."""
        before = 0 if seconds >= _SECONDS_OF_SUCCESS else self._failures.get(order, 0)
        self._failures[order] = before + 1
        if before >= len(PAUSES):
            return None
        self._not_before[order] = time.monotonic() + PAUSES[before]
        return PAUSES[before]

    def rest(self, order: int, seconds: float) -> None:
        """It is not started in the next seconds, and that is no failure."""
        self._not_before[order] = time.monotonic() + seconds

    def failures(self, order: int) -> int:
        return self._failures.get(order, 0)

    def pause(self, order: int) -> float:
        """How many seconds are left to wait; not more than 0 when it may be started."""
        return self._not_before.get(order, 0.0) - time.monotonic()

    def forget_others_than(self, orders: Collection[int]) -> None:
        for memory in (self._failures, self._not_before):
            for order in [known for known in memory if known not in orders]:
                del memory[order]
