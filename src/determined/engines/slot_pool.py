"""`SlotPool`: the slots of an engine, which of them are free, and their reservation against other processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from determined.engines.reservations import Reservation, SlotHolder
from determined.engines.slots import Slots


@dataclass
class _Request:
    """A number of slots to reserve for an experiment."""

    slots: int
    holder: SlotHolder
    on_wait: Callable[[str], None]
    described: str = ""  # the missing slots, as `on_wait` was last told


class SlotPool:
    """The slots of one engine. A job may start on a slot that is free and allowed. Used by one thread."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._free = list(range(slots.count))
        self._allowed = set(self._free)
        self._reservation: Reservation | None = None
        self._pending: _Request | None = None  # set until all reserved slots are locked by this process
        self._complete: _Request | None = None

    @property
    def count(self) -> int:
        """The number of slots, free or not."""
        return self.slots.count

    @property
    def is_waiting(self) -> bool:
        """Whether some reserved slots are not locked yet."""
        return self._pending is not None

    def available(self) -> list[int]:
        """Return the numbers of the slots on which a job may be started now."""
        return [number for number in self._free if number in self._allowed]

    def take(self, ids: Sequence[int]) -> None:
        """Mark slots as used by a job."""
        self._free = [number for number in self._free if number not in ids]

    def release(self, ids: Sequence[int]) -> None:
        """Mark the slots of a job that has ended as free."""
        # In ascending order, so that jobs get the lowest free numbers.
        self._free = sorted([*self._free, *ids])

    def restrict_to(self, ids: Sequence[int]) -> None:
        """Allow new jobs only on these slots. Jobs on other slots keep running."""
        self._allowed = set(ids)

    def reserve(self, slots: int, holder: SlotHolder, on_wait: Callable[[str], None]) -> Reservation:
        """Lock this many slots against other experiments of the user. No slot is available before all are locked.

        `on_wait` is called with a description of the missing slots, first when waiting begins and then when it changes.
        """
        if self._reservation is None:
            self._reservation = Reservation(self.slots, os.environ)
            # No job may start before all reserved slots are locked.
            self.restrict_to(())
        self._pending = _Request(slots, holder, on_wait)
        self.lock_missing()
        return self._reservation

    def reserve_more(self, slots: int) -> None:
        """Raise a complete reservation to this many slots, for example after max_slots was raised."""
        # Never lowered: running jobs use the slots, and they are released at the end.
        if self._complete is not None and min(slots, self.count) > self._complete.slots:
            self._pending = _Request(min(slots, self.count), self._complete.holder, self._complete.on_wait)
            self._complete = None

    def lock_missing(self) -> None:
        """Try to lock the reserved slots that are still missing; call `on_wait` if they are others than before."""
        assert self._pending is not None
        assert self._reservation is not None
        slots = self._reservation.gather(self._pending.slots, self._pending.holder)
        if slots is not None:
            self.slots = slots
            self.restrict_to(range(self._pending.slots))
            self._complete, self._pending = self._pending, None
            return
        missing = self._reservation.missing(self._pending.slots)
        if missing != self._pending.described:
            # Passed on only when it changes: this is called four times a second.
            self._pending.described = missing
            self._pending.on_wait(missing)

    def close(self) -> None:
        """Release all locks."""
        if self._reservation is not None:
            self._reservation.close()
