"""The scheduling policy: assign slots to experiments, as a pure function of what they want and hold.

Experiments are served by priority, and within a priority in queue order. An experiment keeps its slots unless one with
a higher priority wants them (preemption). Slots are assigned in multiples of the slots of one trial. If an experiment
cannot get everything it wants, experiments behind it get no additional slots: otherwise small trials could overtake a
large one forever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Demand:
    """The slots that an experiment wants and holds. `order` identifies the experiment.

    `has` are the slots that cannot be granted to others now: first those granted to it, slots in use before the others;
    then slots that were taken back but on which trials are still saving.
    """

    order: int
    priority: int
    slots_per_trial: int
    wants: int
    has: tuple[int, ...] = ()

    @property
    def sort_key(self) -> tuple[int, int]:
        """The sort key: priority first, then the order in the queue; the smallest is served first."""
        return self.priority, self.order

    def usable_slots(self, slots: int) -> int:
        """Return the largest number of slots, up to this one, that complete trials can use."""
        return slots - slots % self.slots_per_trial


def grants(demands: Iterable[Demand], slots: int, unavailable: Collection[int] = ()) -> dict[int, tuple[int, ...]]:
    """Return the slots that each experiment is granted, by order, out of 0 to `slots` - 1.

    Slots that are `unavailable`, because a process outside the queue holds them, are granted to no experiment. Slots
    that are taken back are granted to another experiment only after they are free.
    """
    ranked = sorted(demands, key=lambda demand: demand.sort_key)
    shares = _shares(ranked, slots, slots - len(unavailable))
    # Slots that are still in use elsewhere cannot be granted, even if they were taken back.
    taken = {number for demand in ranked for number in demand.has}.union(unavailable)
    free = [number for number in range(slots) if number not in taken]
    given: dict[int, tuple[int, ...]] = {}
    for demand in ranked:
        share = shares[demand.order]
        # Slots that it has come first, so that trials are not moved without need.
        within_reach = (*demand.has[:share], *free)
        own = within_reach[: demand.usable_slots(min(share, len(within_reach)))]
        given[demand.order] = own
        free = [number for number in free if number not in own]
    return given


def _shares(ranked: Sequence[Demand], slots: int, available: int) -> dict[int, int]:
    """Return the number of slots of each experiment, by order, once slots that are taken back are free."""
    shares: dict[int, int] = {}
    left, closed = available, False
    for _, peers in groupby(ranked, key=lambda demand: demand.priority):
        equals = list(peers)
        for demand in equals:  # first their present slots: experiments of the same priority do not preempt each other
            shares[demand.order] = demand.usable_slots(min(len(demand.has), demand.wants, left))
            left -= shares[demand.order]
        for demand in equals:
            wanted = demand.usable_slots(min(demand.wants, slots))
            if not closed:
                more = demand.usable_slots(min(wanted, shares[demand.order] + left)) - shares[demand.order]
                shares[demand.order] += more
                left -= more
            # From the first experiment that lacks slots on, no experiment behind it gets more.
            closed = closed or shares[demand.order] < wanted
    return shares
