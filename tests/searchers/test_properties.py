"""Properties of every search method, for any behaviour of its trials."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.searchers.base import Action, Continue, Create, Event, Exited, Pause, Searcher, Stop, Validated
from determined.searchers.simulate import Behaviour, Trace, simulate
from tests.searchers.methods import METHODS, config, copied, make, plain, through_journal, trouble

# Optuna has a separate test of this kind: a restored search asks and tells everything again.
QUICK = [name for name in METHODS if not name.startswith("optuna")]
EXACT = [name for name in QUICK if name not in ("single", "random", "grid")]

some = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])


class Referee:
    """Checks a search: which actions are allowed at which moment, and the number of trials."""

    def __init__(self, searcher: Searcher, name: str) -> None:
        self.searcher, self.fields = searcher, METHODS[name]
        self.open: dict[int, str] = {}
        self.over: set[int] = set()
        self.invalid = 0

    def watch(self, event: Event | None, actions: list[Action]) -> None:
        if isinstance(event, Exited):
            del self.open[event.number]
            self.over.add(event.number)
            self.invalid += event.reason == "invalid_hp"
        for action in actions:
            self._check(action)
        if bound := self.fields.get("max_concurrent_trials"):
            assert sum(state != "paused" for state in self.open.values()) <= bound
        self._check_rungs()

    def _check(self, action: Action) -> None:
        assert action.number not in self.over, "an action for a trial that is over"
        state = self.open.get(action.number)
        if isinstance(action, Create):
            assert state is None
            assert action.number == len(self.open) + len(self.over), "numbers count up"
            self.open[action.number] = "running"
        elif isinstance(action, Pause):
            assert state == "running"
            self.open[action.number] = "paused"
        elif isinstance(action, Continue):
            assert state in ("running", "paused")
            self.open[action.number] = "running"
        else:
            assert state in ("running", "paused")
            self.open[action.number] = "stopped" if state == "running" else "paused"

    def _check_rungs(self) -> None:
        for rungs in self.searcher.state().get("rungs", []):
            for rung in rungs:
                entries = Counter(number for number, _ in rung["results"])
                assert not entries or max(entries.values()) == 1, "a trial is in a rung twice"
                values = [math.inf if value is None else value for _, value in rung["results"]]
                assert values == sorted(values)


@pytest.mark.parametrize("name", METHODS)
@some
@given(seed=st.integers(0, 2**31), slots=st.integers(1, 20), patient=st.booleans())
def test_every_search_ends_with_all_its_trials(name: str, seed: int, slots: int, patient: bool) -> None:
    if name.startswith("optuna") and seed % 8:
        return  # its samplers are slow
    searcher = make(name, seed)
    referee = Referee(searcher, name)
    seen = [0.0]

    def watch(event: Event | None, actions: list[Action]) -> None:
        referee.watch(event, actions)
        seen.append(searcher.progress(dict.fromkeys(referee.open, 0.5)))

    simulate(
        searcher,
        lambda create: trouble(create, seed, late_refusals=True),
        slots=slots,
        patient=patient,
        watch=watch,
    )
    assert all(0.0 <= value <= 1.0 for value in seen)
    if searcher.failure is None:
        assert searcher.finished
        assert not referee.open
        assert searcher.progress({}) == 1.0
        assert len(referee.over) == expected_trials(name, referee)


def expected_trials(name: str, referee: Referee) -> int:
    fields = METHODS[name]
    if "max_trials" in fields:
        return int(fields["max_trials"]) + referee.invalid
    return {"single": 1, "grid": 12}.get(name, len(referee.over))


@pytest.mark.parametrize("name", QUICK)
@some
@given(seed=st.integers(0, 2**31), slots=st.integers(1, 8))
def test_a_state_saved_after_any_event_has_the_same_future(name: str, seed: int, slots: int) -> None:
    twin = make(name, seed)

    def follow(event: Event | None, actions: list[Action]) -> None:
        nonlocal twin
        told = twin.start() if event is None else twin.on_event(through_journal(event))
        assert plain(told) == plain(actions)
        twin = copied(twin, lambda: make(name, seed))

    searcher = make(name, seed)
    simulate(
        searcher,
        lambda create: trouble(create, seed, late_refusals=True),
        slots=slots,
        patient=seed % 2 == 0,
        watch=follow,
    )
    assert twin.state() == searcher.state()
    assert (twin.finished, twin.failure) == (searcher.finished, searcher.failure)


@pytest.mark.parametrize("name", QUICK)
@some
@given(seed=st.integers(0, 2**31))
def test_repeated_events_change_nothing(name: str, seed: int) -> None:
    searcher, past, chance = make(name, seed), list[Event](), random.Random(seed)

    def again(event: Event | None, actions: list[Action]) -> None:
        if event is None:
            return
        past.append(event)
        repeated = [event] if isinstance(event, Exited) or searcher_has_decided(event, actions) else []
        repeated += [old for old in chance.sample(past, min(len(past), 3)) if is_stale(old, past)]
        before = searcher.state()
        for old in repeated:
            assert searcher.on_event(old) == []
        assert searcher.state() == before

    simulate(searcher, lambda create: trouble(create, seed), slots=3, watch=again)


def searcher_has_decided(event: Event, actions: list[Action]) -> bool:
    return any(action.number == event.number for action in actions) if isinstance(event, Validated) else False


def is_stale(event: Event, past: list[Event]) -> bool:
    """Return whether this is an exit, or a report of a trial that has reported a later time since."""
    if not isinstance(event, Validated) or event.time is None:
        return isinstance(event, Exited)
    later = [o.time for o in past if isinstance(o, Validated) and o.number == event.number and o.time is not None]
    return max(later) > event.time


@pytest.mark.parametrize("name", EXACT)
@some
@given(seed=st.integers(0, 2**31))
def test_neither_speed_nor_slots_change_a_decision(name: str, seed: int) -> None:
    """Each of these searches has other speeds, and no result is processed out of order."""

    def decisions(slots: int) -> tuple[list[str], Trace, str | None]:
        searcher = make(name, seed)
        trace = simulate(searcher, lambda create: trouble(create, seed), slots=slots)
        return list(decisions_in_words(trace)), trace, searcher.failure

    alone, trace, failure = decisions(1)
    assert trace.out_of_order == 0
    for slots in (2, 3, 20):
        others, trace, other_failure = decisions(slots)
        assert trace.out_of_order == 0
        assert (failure is None) == (other_failure is None)
        if failure is None:
            assert others == alone


@pytest.mark.parametrize("name", ["random", "grid", "single"])
def test_the_trials_of_methods_without_rungs_follow_from_the_seed(name: str) -> None:
    def trials(slots: int) -> list[Any]:
        trace = simulate(make(name, 4), lambda create: trouble(create, 1), slots=slots)
        return [actions[0] for _, actions in sorted(trace.decisions.items())]

    assert trials(1) == trials(3) == trials(9)
    assert make(name, 4).start() != make(name, 5).start()
    assert make(name, 4).waits_for(0) == frozenset()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("reason", ["errored", "canceled", "invalid_hp", "completed"])
def test_trials_that_all_end_alike_before_the_first_rung(name: str, reason: Any) -> None:
    searcher = make(name)
    trace = simulate(searcher, lambda create: Behaviour(lambda time: None, ends_at=1, ends_as=reason), slots=3)
    refuses = reason == "invalid_hp" and name not in ("single", "grid", "pbt")
    if refuses:
        assert searcher.failure is not None
        assert sum(isinstance(event, Exited) for event in trace.events) == 3 * config(name).max_trials
    else:
        assert searcher.finished


def test_a_stop_is_final() -> None:
    searcher = make("adaptive_asha")
    told: dict[int, list[Action]] = {}

    def watch(event: Event | None, actions: list[Action]) -> None:
        for action in actions:
            assert not any(isinstance(earlier, Stop) for earlier in told.setdefault(action.number, []))
            told[action.number].append(action)

    simulate(searcher, lambda create: trouble(create, 3), slots=4, watch=watch)
    assert len(told) >= 20


def decisions_in_words(trace: Trace) -> Iterator[str]:
    """A line for each trial with its successive goals and how it ended."""
    for number, actions in sorted(trace.decisions.items()):
        words = []
        for action in actions:
            if isinstance(action, (Create, Continue)):
                words.append(f"to {action.goal}")
            elif isinstance(action, Stop):
                words.append("finished" if action.finished else "stopped")
        yield f"{number}: {', '.join(words)}"
