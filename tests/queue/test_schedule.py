"""Which experiment gets which slots, for all combinations of what they request and hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from determined.queue.schedule import Demand, grants

MOST = 8


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Demand], int]:
    """Return some experiments on a machine; each slot is held by at most one of them."""
    slots = draw(st.integers(1, MOST))
    owners = draw(st.lists(st.integers(0, 5), min_size=slots, max_size=slots))
    demands = [
        Demand(
            order=number,
            priority=draw(st.sampled_from([1, 42, 43])),
            slots_per_trial=draw(st.integers(1, 4)),
            wants=draw(st.integers(0, MOST + 2)),
            has=tuple(slot for slot, owner in enumerate(owners) if owner == number),
        )
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]
    return demands, slots


def settled(demands: list[Demand], slots: int) -> list[Demand]:
    """Return the state after N rounds, when everything that was taken back is free."""
    for _ in range(3):
        given_now = grants(demands, slots)
        demands = [replace(demand, has=given_now[demand.order]) for demand in demands]
    return demands


@given(situations())
@settings(max_examples=100)
def test_no_slot_is_assigned_twice_and_only_for_complete_trials(situation: tuple[list[Demand], int]) -> None:
    demands, slots = situation
    result = grants(demands, slots)
    everything = [number for numbers in result.values() for number in numbers]
    assert len(everything) == len(set(everything))
    assert set(everything) <= set(range(slots))
    for demand in demands:
        own = result[demand.order]
        assert len(own) % demand.slots_per_trial == 0
        assert len(own) <= demand.wants
        others = {number for other in demands if other is not demand for number in other.has}
        assert not set(own) & others, "a slot that another still has is not given"


@given(situations())
@settings(max_examples=100)
def test_only_a_higher_priority_takes_something_back(situation: tuple[list[Demand], int]) -> None:
    demands, slots = situation
    result = grants(demands, slots)
    for demand in demands:
        keeps = min(demand.usable_slots(len(demand.has)), demand.usable_slots(demand.wants))
        if len(result[demand.order]) < keeps:
            above = [other for other in demands if other.priority < demand.priority]
            assert any(other.wants >= other.slots_per_trial for other in above)
        else:
            # It keeps slots that it had, those in use first.
            assert set(demand.has[:keeps]) <= set(result[demand.order])


@given(situations())
@settings(max_examples=100)
def test_assignments_settle_and_later_ones_do_not_gain_while_an_earlier_one_waits(
    situation: tuple[list[Demand], int],
) -> None:
    demands, slots = situation
    rested = settled(demands, slots)
    result = grants(rested, slots)
    assert result == {demand.order: demand.has for demand in rested}
    by_rank = sorted(rested, key=lambda demand: demand.sort_key)
    before = {demand.order: len(demand.has) for demand in demands}
    waiting = False
    for demand in by_rank:
        got = len(result[demand.order])
        assert not waiting or got <= before[demand.order]
        waiting = waiting or got < demand.usable_slots(min(demand.wants, slots))
    # The first of the highest priority gets all slots that others of that priority do not hold.
    first = by_rank[0]
    equals = sum(len(result[other.order]) for other in by_rank[1:] if other.priority == first.priority)
    assert len(result[first.order]) == first.usable_slots(min(first.wants, slots - equals))


def test_a_large_trial_is_not_kept_waiting_by_small_ones() -> None:
    busy = Demand(1, 42, 1, wants=1, has=(0,))
    large = Demand(2, 42, 4, wants=4)
    small = Demand(3, 42, 1, wants=1)
    assert grants([busy, large, small], 4) == {1: (0,), 2: (), 3: ()}
    assert grants([large, small], 4) == {2: (0, 1, 2, 3), 3: ()}


def test_what_can_never_be_used_is_not_reserved() -> None:
    assert grants([Demand(1, 42, 2, wants=4), Demand(2, 42, 1, wants=1)], 3) == {1: (0, 1), 2: (2,)}


def test_slots_are_taken_back_first_and_given_when_they_are_free() -> None:
    low, high = Demand(1, 50, 1, wants=2, has=(0, 1)), Demand(2, 1, 1, wants=1)
    assert grants([low, high], 2) == {1: (0,), 2: ()}
    low = replace(low, has=(0,))
    assert grants([low, high], 2) == {1: (0,), 2: (1,)}
    assert grants([low, replace(high, wants=0, has=(1,))], 2) == {1: (0,), 2: ()}
    assert grants([low], 2) == {1: (0, 1)}
