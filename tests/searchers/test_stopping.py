"""Halving by stopping, decision by decision."""

from __future__ import annotations

from typing import Any

import pytest

from determined.errors import InvalidConfigurationException
from determined.searchers.base import Action, Continue, Create, Exited, Extended, Searcher, Stop, Validated
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import make


def halving(**changes: Any) -> Searcher:
    """Return a search with rungs at 4, 16 and 64 and a divisor of 4."""
    return make("async_halving", **{"max_trials": 100, "max_concurrent_trials": 20, **changes})


def report(searcher: Searcher, number: int, metric: float | None, time: float = 4) -> list[Action]:
    return searcher.on_event(Validated(number, metric, time))


@pytest.mark.parametrize("smaller_is_better", [True, False])
def test_one_rung_as_results_come_in(smaller_is_better: bool) -> None:
    searcher = halving(smaller_is_better=smaller_is_better)
    searcher.start()
    metrics = [0.90, 0.80, 0.85, 0.70, 0.95, 0.75, 0.72, 0.71]
    sign = 1 if smaller_is_better else -1
    decided = [report(searcher, number, sign * metric) for number, metric in enumerate(metrics)]
    goes_on = {0, 1, 3, 7}
    assert decided == [[Continue(number, 16.0)] if number in goes_on else [Stop(number)] for number in range(8)]


def test_a_newcomer_wins_a_tie() -> None:
    searcher = halving()
    searcher.start()
    assert report(searcher, 0, 0.5) == [Continue(0, 16.0)]
    assert report(searcher, 1, 0.5) == [Continue(1, 16.0)]


def test_the_last_rung_finishes_a_trial() -> None:
    searcher = halving()
    first, *_ = searcher.start()
    assert isinstance(first, Create)
    assert (first.goal, first.rungs, first.bracket, first.source) == (4.0, (4.0, 16.0, 64.0), 0, None)
    assert report(searcher, 0, 1.0, 3.9) == []
    assert report(searcher, 0, 1.0, 4) == [Continue(0, 16.0)]
    assert report(searcher, 0, 1.0, 16) == [Continue(0, 64.0)]
    assert report(searcher, 0, 1.0, 64) == [Stop(0, finished=True)]


def test_a_late_first_report_passes_several_rungs() -> None:
    searcher = halving()
    searcher.start()
    assert report(searcher, 0, 1.0, 20) == [Continue(0, 64.0)]
    assert report(searcher, 1, 2.0, 100) == [Stop(1)]
    assert report(searcher, 2, 0.5, 100) == [Stop(2, finished=True)]


@pytest.mark.parametrize("smaller_is_better", [True, False])
@pytest.mark.parametrize("metric", [None, float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_the_worst_and_ends_nothing(metric: float | None, smaller_is_better: bool) -> None:
    searcher = halving(smaller_is_better=smaller_is_better)
    searcher.start()
    assert report(searcher, 0, metric) == [Stop(0)]  # even as the first one
    assert report(searcher, 1, 1e300 if smaller_is_better else -1e300) == [Continue(1, 16.0)]
    assert searcher.failure is None


@pytest.mark.parametrize("time", [None, float("nan")])
def test_without_a_time_nothing_is_decided(time: float | None) -> None:
    searcher = halving()
    searcher.start()
    assert searcher.on_event(Validated(0, 0.1, time)) == []
    assert report(searcher, 0, 0.1) == [Continue(0, 16.0)]


def test_places_are_filled_on_exit_not_on_stop() -> None:
    searcher = halving(max_concurrent_trials=2, max_trials=4)
    assert [action.number for action in searcher.start()] == [0, 1]
    report(searcher, 0, 0.1)
    assert report(searcher, 1, 0.2) == [Stop(1)]
    (created,) = searcher.on_event(Exited(1, "completed"))
    assert isinstance(created, Create)
    assert created.number == 2
    assert searcher.on_event(Exited(1, "completed")) == []
    (created,) = searcher.on_event(Exited(0, "completed"))  # ended on its own, below its rung: no place is lost
    assert created.number == 3


def test_reports_of_a_stopped_trial_are_ignored() -> None:
    searcher = halving()
    searcher.start()
    report(searcher, 0, 0.1)
    assert report(searcher, 1, 0.2) == [Stop(1)]
    before = searcher.state()
    assert report(searcher, 1, 0.01, 5) == report(searcher, 1, 0.01, 64) == []
    assert searcher.state() == before


def test_a_failure_counts_once_as_the_worst_when_its_turn_has_come() -> None:
    searcher = halving()
    searcher.start()
    report(searcher, 0, 0.5)
    report(searcher, 1, 0.6)
    for number in (3, 4, 5, 6):  # out of order: 2 has not reported
        searcher.on_event(Exited(number, "errored"))
    assert searcher.waits_for(7) == {2}
    # 2 is the third result, of which one may continue; had the failures counted already, it would have been one of
    # seven.
    assert report(searcher, 2, 0.55) == [Stop(2)]
    assert searcher.waits_for(7) == frozenset()
    assert report(searcher, 7, 0.52) == [Continue(7, 16.0)]  # second of eight


def test_a_trial_that_ends_on_its_own_is_compared_by_its_last_value() -> None:
    searcher = halving()
    searcher.start()
    report(searcher, 0, 0.5, time=3)
    searcher.on_event(Exited(0, "completed"))
    assert report(searcher, 1, 0.6) == [Stop(1)]
    assert report(searcher, 2, 0.4) == [Continue(2, 16.0)]


def test_invalid_hyperparameters_leave_no_trace_and_are_replaced() -> None:
    searcher = halving(max_trials=3, max_concurrent_trials=3)
    searcher.start()
    report(searcher, 0, 0.1)
    (created,) = searcher.on_event(Exited(0, "invalid_hp"))
    assert isinstance(created, Create)
    assert created.number == 3
    assert report(searcher, 1, 0.9) == [Continue(1, 16.0)]  # the first in the rung


def test_a_space_that_is_mostly_refused_ends_the_search() -> None:
    searcher = make("adaptive_asha", max_trials=4)
    trace = simulate(searcher, lambda create: Behaviour(lambda t: 0, ends_at=0, ends_as="invalid_hp"), slots=2)
    assert len(trace.events) == 12
    assert searcher.failure is not None
    assert "12 trials raised InvalidHP" in searcher.failure


def test_earlier_entrants_are_waited_for() -> None:
    searcher = halving()
    searcher.start()
    assert searcher.waits_for(0) == frozenset()
    assert searcher.waits_for(3) == {0, 1, 2}
    report(searcher, 0, 0.9)
    report(searcher, 1, 0.8)
    assert searcher.waits_for(3) == {2}
    assert searcher.waits_for(1) == {0}  # now on the way to the second rung
    assert searcher.waits_for(99) == frozenset()


def test_brackets_share_one_pool() -> None:
    searcher = make("adaptive_asha", max_trials=16, max_concurrent_trials=16)
    created = [action for action in searcher.start() if isinstance(action, Create)]
    assert [create.bracket for create in created] == [0] * 8 + [1] * 4 + [0] * 4
    assert {create.bracket: create.rungs for create in created} == {0: (4, 16, 64), 1: (16, 64)}


def test_a_search_is_extended_in_the_middle_and_after_its_end() -> None:
    searcher = make("adaptive_asha", max_trials=8)
    searcher.start()
    with pytest.raises(InvalidConfigurationException, match="more than the present 8, got 7"):
        searcher.on_event(Extended(7))
    assert searcher.on_event(Extended(8)) == []

    def behave(create: Create) -> Behaviour:
        return Behaviour(lambda time: create.hparams["lr"])

    searcher = make("adaptive_asha", max_trials=8)
    trace = simulate(searcher, behave, slots=2)
    assert (len(trace.decisions), searcher.finished) == (8, True)
    created = searcher.on_event(Extended(20))
    assert [action.number for action in created] == [8, 9, 10, 11, 12, 13]
    assert not searcher.finished
    assert searcher.progress({}) < 1.0


def test_progress_grows_to_one() -> None:
    searcher = make("adaptive_asha")
    seen: list[float] = []
    simulate(
        searcher,
        lambda create: Behaviour(lambda time: create.hparams["lr"]),
        slots=3,
        watch=lambda event, actions: seen.append(searcher.progress({})),
    )
    assert seen[0] == 0.0
    assert seen[-1] == 1.0
    assert all(0.0 <= value <= 1.0 for value in seen)
    assert 0.3 < seen[len(seen) // 2] < 0.9


def test_progress_between_rungs_is_what_trials_say() -> None:
    searcher = halving(max_trials=1)
    searcher.start()
    report(searcher, 0, 0.1, 16)
    assert searcher.progress({0: 0.5}) == pytest.approx(0.5)
    assert searcher.progress({0: 7.0}) == searcher.progress({0: 1.0}) == 1.0
    assert searcher.progress({}) == pytest.approx(0.25)
