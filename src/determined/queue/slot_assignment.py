"""Assign slots to queued experiments, except slots that processes outside the queue hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from determined.engines.reservations import SlotHolder, SlotLocks, slot_locks, slot_names
from determined.engines.slots import Slots
from determined.queue.schedule import Demand, grants
from determined.store.databases.location import shown


class SlotAssignment:
    """The slots of the queue. A slot is locked against other processes of this user while an experiment has it."""

    def __init__(self, slots: Slots, store_place: str) -> None:
        self._names = slot_names(slots)
        self._store = shown(store_place)
        self._locks: SlotLocks = slot_locks()
        self.unavailable: frozenset[int] = frozenset()  # wanted slots that other processes hold

    @property
    def count(self) -> int:
        """The number of slots."""
        return len(self._names)

    def give(self, demands: Sequence[Demand], experiments: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
        """Return the slots of each experiment, as `grants` does. `experiments` are their ids, by order.

        Assigning is repeated without the slots that turn out to be held by other processes.
        """
        unavailable: set[int] = set()
        # Each round excludes at least one more slot, so that it ends.
        while True:
            shares = grants(demands, self.count, unavailable)
            missing = self._take(shares, experiments)
            if not missing:
                break
            unavailable |= missing
        self.unavailable = frozenset(unavailable)
        used = {number for numbers in shares.values() for number in numbers}
        used.update(number for demand in demands for number in demand.has)
        # Released only when no job uses them any more, including trials that are still saving.
        self._locks.release(set(self._locks.held) - {self._names[number] for number in used})
        return shares

    def holders(self) -> list[str]:
        """Describe the experiments outside the queue that hold slots which the queue could use."""
        names = [name for number in sorted(self.unavailable) if (name := self._names[number])]
        return list(dict.fromkeys(str(holder) for name in names if (holder := self._locks.holder(name))))

    def close(self) -> None:
        """Release all slots."""
        self._locks.close()

    def _take(self, shares: Mapping[int, tuple[int, ...]], experiments: Mapping[int, int]) -> set[int]:
        """Lock these slots and return those that other processes hold. Slots that are already locked are unaffected."""
        wanted = {number: experiments[order] for order, numbers in shares.items() for number in numbers}
        # A slot without a name (a CPU slot beyond the number of CPUs) needs no lock.
        news = {number for number in wanted if self._names[number] not in self._locks.held and self._names[number]}
        # Another process is waiting for slots; what it is about to lock must not be taken.
        if news and not self._locks.begin_turn():
            return news
        missing = set()
        for number, experiment_id in wanted.items():
            name = self._names[number]
            if name and not self._locks.take(name, SlotHolder(experiment_id, self._store, os.getpid())):
                missing.add(number)
        self._locks.end_turn()
        return missing
