"""Halving by promotion: trials pause at rungs and may continue later."""

from __future__ import annotations

from typing import Any

from determined.searchers.base import Action, Continue, Create, Exited, Extended, Pause, Searcher, Stop, Validated
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import make


def promotion(**changes: Any) -> Searcher:
    """Return a search with rungs at 8, 16, 32 and 64, a divisor of 2, and sufficient places."""
    return make("promotion, one bracket", **{"max_trials": 8, "max_concurrent_trials": 8, **changes})


def report(searcher: Searcher, number: int, metric: float, time: float = 8) -> list[Action]:
    return searcher.on_event(Validated(number, metric, time))


def test_one_rung_as_results_come_in() -> None:
    searcher = promotion(max_trials=100)
    searcher.start()
    assert report(searcher, 0, 0.5)[0] == Pause(0)  # half of one is zero
    assert report(searcher, 1, 0.7)[:2] == [Pause(1), Continue(0, 16.0)]  # one of two, and it is the earlier one
    assert report(searcher, 2, 0.6)[0] == Pause(2)
    assert report(searcher, 3, 0.4)[0] == Continue(3, 16.0)  # among the best two: continues without a pause
    assert report(searcher, 4, 0.3)[0] == Continue(4, 16.0)  # 0.3 0.4 | 0.5 0.6 0.7: among the best two as well
    paused, created = report(searcher, 5, 0.9)  # now three of six: the third is 0.5, which has already continued
    assert (paused, type(created)) == (Pause(5), Create)
    report(searcher, 6, 0.95)
    assert report(searcher, 7, 0.99) == [Pause(7), Continue(2, 16.0)]  # the fourth of eight is 0.6


def test_equals_stand_behind() -> None:
    searcher = promotion(max_trials=100)
    searcher.start()
    report(searcher, 0, 0.5)
    assert report(searcher, 1, 0.5)[:2] == [Pause(1), Continue(0, 16.0)]


def test_a_promoted_trial_gets_a_place_before_a_new_one() -> None:
    searcher = promotion(max_concurrent_trials=1, max_trials=3)
    assert [action.number for action in searcher.start()] == [0]
    paused, created = report(searcher, 0, 0.5)
    assert paused == Pause(0)
    assert isinstance(created, Create)
    assert report(searcher, 1, 0.9) == [Pause(1), Continue(0, 16.0)]
    paused, created = report(searcher, 0, 0.5, 16)
    assert isinstance(created, Create)
    assert created.number == 2


def test_the_best_reaches_the_top_and_the_rest_ends() -> None:
    searcher = promotion(max_trials=5)
    trace = simulate(searcher, lambda create: Behaviour(lambda time: create.number), slots=2)
    assert searcher.finished
    ends = {number: actions[-1] for number, actions in trace.decisions.items()}
    assert ends[0] == Stop(0, finished=True)
    assert all(ends[number] == Stop(number) for number in range(1, 5))


def test_a_rung_of_failures_ends_the_search() -> None:
    searcher = promotion()
    simulate(searcher, lambda create: Behaviour(lambda time: None), slots=3)
    assert searcher.finished
    searcher = promotion()
    simulate(searcher, lambda create: Behaviour(lambda time: 1.0, ends_at=5, ends_as="errored"), slots=3)
    assert searcher.finished


def test_a_paused_trial_that_was_killed_is_not_promoted() -> None:
    searcher = promotion(max_trials=100)
    searcher.start()
    report(searcher, 0, 0.5)
    searcher.on_event(Exited(0, "canceled"))
    assert report(searcher, 1, 0.7)[0] == Pause(1)
    assert not any(isinstance(action, Continue) for action in report(searcher, 2, 0.9))


def test_a_promoted_trial_that_was_killed_before_it_had_a_place() -> None:
    searcher = promotion(max_concurrent_trials=2, max_trials=100)
    searcher.start()
    report(searcher, 0, 0.5)  # 2 takes the place
    searcher.on_event(Exited(2, "errored"))  # out of order; 3 takes the place
    assert report(searcher, 1, 0.7)[:2] == [Pause(1), Continue(0, 16.0)]
    searcher.on_event(Exited(0, "canceled"))
    assert searcher.failure is None
    assert report(searcher, 3, 0.9)[0] == Pause(3)


def test_rare_validations_pass_several_rungs() -> None:
    searcher = promotion(max_trials=8)
    trace = simulate(
        searcher,
        lambda create: Behaviour(lambda time: create.number, validates_every=40),
        slots=3,
    )
    assert searcher.finished
    assert any(action == Stop(0, finished=True) for action in trace.decisions[0])
    searcher = promotion(max_trials=4)
    searcher.start()
    assert report(searcher, 0, 0.5, time=100)[0] == Pause(0)
    assert report(searcher, 1, 0.6, time=100)[0] == Pause(1)
    assert report(searcher, 2, 0.7, time=100)[0] == Pause(2)
    # It continues to the third rung at once; then no other trial can reach it, and the best one is trained to the end.
    assert report(searcher, 3, 0.4, time=100) == [Stop(1), Stop(2), Stop(0), Stop(3, finished=True)]


def test_extended_after_the_end_new_trials_meet_old_results() -> None:
    searcher = promotion(max_trials=4)

    def behave(create: Create) -> Behaviour:
        return Behaviour(lambda time: create.number)

    simulate(searcher, behave, slots=2)
    assert searcher.finished
    created = searcher.on_event(Extended(5))
    assert [action.number for action in created] == [4]
    assert report(searcher, 4, -1.0) == [Continue(4, 16.0)]
    assert report(searcher, 4, -1.0, 16) == [Continue(4, 32.0)]
    assert report(searcher, 4, -1.0, 32) == [Continue(4, 64.0)]
    assert report(searcher, 4, -1.0, 64) == [Stop(4, finished=True)]
    assert searcher.on_event(Exited(4, "completed")) == []
    assert searcher.finished


def test_fewer_weak_trials_are_trained_to_the_end_than_by_stopping() -> None:
    """The purpose of the method: on one slot, the first trials at a rung do not continue without competition."""

    def finished(stop_once: bool, seed: int) -> int:
        searcher = make("async_halving", seed, max_trials=16, max_concurrent_trials=1, stop_once=stop_once)
        trace = simulate(searcher, lambda create: Behaviour(lambda time: create.hparams["lr"]), slots=1)
        return sum(actions[-1] == Stop(number, finished=True) for number, actions in trace.decisions.items())

    pausing, stopping = (sum(finished(stop_once, seed) for seed in range(20)) for stop_once in (False, True))
    assert 20 <= pausing <= 30  # about one of sixteen, as planned
    assert stopping > 2 * pausing
