"""Who gets which slots: a pure function of what experiments want and what they have.

Experiments are served by priority, and among those of one priority in their order. What somebody has stays with them,
unless an experiment of a higher priority wants it. Slots are given in multiples of what one trial takes. When somebody
cannot have all that they want, nobody behind them gets more than they have: a large trial is not kept waiting for ever
by small ones that slip past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Demand:
    """What an experiment wants. `order` is its name here: no two are the same.

    `has` are the slots that nobody else can be given now. Those that are its own come first, those in use before the
    others; then slots that were taken back, on which trials are still about to save.
    """

    order: int
    priority: int
    slots_per_trial: int
    wants: int
    has: tuple[int, ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        return self.priority, self.order

    def whole(self, slots: int) -> int:
        """The largest number of slots up to that one that whole trials can use."""
        return slots - slots % self.slots_per_trial


def grants(demands: Iterable[Demand], slots: int, unavailable: Collection[int] = ()) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the slots that each experiment shall have from now on, out of 0 to `slots` - 1.

    Slots that are `unavailable`, because a process outside the queue holds them, are given to no experiment.

    Slots that are taken back are nobody's until they are free; whoever shall have them gets them then.
    """
    ranked = sorted(demands, key=lambda demand: demand.rank)
    shares = _shares(ranked, slots, slots - len(unavailable))
    taken = {number for demand in ranked for number in demand.has}.union(unavailable)
    free = [number for number in range(slots) if number not in taken]
    given: dict[int, tuple[int, ...]] = {}
    for demand in ranked:
        share = shares[demand.order]
        within_reach = (*demand.has[:share], *free)
        own = within_reach[: demand.whole(min(share, len(within_reach)))]
        given[demand.order] = own
        free = [number for number in free if number not in own]
    return given


def _shares(ranked: Sequence[Demand], slots: int, available: int) -> dict[int, int]:
    """Return how many slots each experiment is to have, once those that are taken back are free."""
    shares: dict[int, int] = {}
    left, closed = available, False
    for _, peers in groupby(ranked, key=lambda demand: demand.priority):
        equals = list(peers)
        for demand in equals:  # what they have is not taken from them by their equals
            shares[demand.order] = demand.whole(min(len(demand.has), demand.wants, left))
            left -= shares[demand.order]
        for demand in equals:
            wanted = demand.whole(min(demand.wants, slots))
            if not closed:
                more = demand.whole(min(wanted, shares[demand.order] + left)) - shares[demand.order]
                shares[demand.order] += more
                left -= more
            closed = closed or shares[demand.order] < wanted
    return shares
