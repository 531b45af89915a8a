"""Retry policy for runners of queued experiments: the backoff after failures, and when to give up."""

from __future__ import annotations

import time
from collections.abc import Collection

# Five times longer each time: short faults pass quickly, and a broken experiment is given up after half a minute.
PAUSES = (1.0, 5.0, 25.0)  # seconds after the first, second and third consecutive failure; the fourth is final
_SECONDS_OF_SUCCESS = 60.0  # a runner that ran at least this long resets the count of consecutive failures


class RestartBackoff:
    """The failures and next start times of queued experiments, by their `order` in the queue."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}

    def failed(self, order: int, seconds: float) -> float | None:
        """Record that the runner of a queue entry failed after `seconds`; return the seconds until its next start.

        Return None to give up. A run of a minute or more resets the count of failures.
        """
        # The failure is not connected with earlier ones.
        before = 0 if seconds >= _SECONDS_OF_SUCCESS else self._failures.get(order, 0)
        self._failures[order] = before + 1
        if before >= len(PAUSES):
            return None
        self._not_before[order] = time.monotonic() + PAUSES[before]
        return PAUSES[before]

    def delay(self, order: int, seconds: float) -> None:
        """Delay the next start without counting a failure."""
        self._not_before[order] = time.monotonic() + seconds

    def failures(self, order: int) -> int:
        """Return the number of consecutive failures."""
        return self._failures.get(order, 0)

    def seconds_left(self, order: int) -> float:
        """Return the seconds left until the next start; zero or negative if it may be started."""
        return self._not_before.get(order, 0.0) - time.monotonic()

    def keep_only(self, orders: Collection[int]) -> None:
        """Forget all experiments except those with these orders."""
        for memory in (self._failures, self._not_before):
            for order in [known for known in memory if known not in orders]:
                del memory[order]
