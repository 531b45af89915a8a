"""Population based training: rounds, replacement, changed copies."""

from __future__ import annotations

import math
from typing import Any

import pytest

from determined.config.random_stream import RandomStream
from determined.errors import InvalidConfigurationException
from determined.searchers.base import Action, Continue, Create, Exited, Extended, Pause, Searcher, Stop, Validated
from determined.searchers.explore import explore
from determined.searchers.pbt import replaced_each_round
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import SPACE, make


def population(**changes: Any) -> Searcher:
    """Six trials, four rounds of 16; two are replaced after each."""
    return make("pbt", **{"replace_function": {"truncate_fraction": 0.34}, **changes})


def report(searcher: Searcher, number: int, metric: float | None, time: float = 16) -> list[Action]:
    return searcher.on_event(Validated(number, metric, time))


def test_a_round_is_a_barrier_and_the_worst_continue_from_the_best() -> None:
    searcher = population()
    first = searcher.start()
    assert [type(action) for action in first] == [Create] * 6
    assert isinstance(first[0], Create)
    assert (first[0].goal, first[0].rungs) == (16.0, (16, 32, 48, 64))
    assert report(searcher, 0, 0.1, 8) == []
    for number in range(5):
        assert report(searcher, number, 0.1 * number) == [Pause(number)]
        assert report(searcher, number, 0.1 * number) == []  # reported again
    actions = report(searcher, 5, 0.05)
    assert actions[:3] == [Stop(3), Stop(4), Pause(5)]  # 5 is copied, so it saves first
    copies = [action for action in actions if isinstance(action, Create)]
    assert [(copy.number, copy.source, copy.goal) for copy in copies] == [(6, 0, 16.0), (7, 5, 16.0)]
    assert list(copies[0].rungs) == [16, 32, 48]
    assert actions[-4:] == [Continue(0, 32.0), Continue(5, 32.0), Continue(1, 32.0), Continue(2, 32.0)]


def test_the_last_to_report_continues_without_a_pause_if_it_is_not_copied() -> None:
    searcher = population()
    searcher.start()
    for number in range(5):
        report(searcher, number, number)
    actions = report(searcher, 5, 2.5)
    assert Pause(5) not in actions
    assert Continue(5, 32.0) in actions


def test_to_the_end() -> None:
    searcher = population()
    trace = simulate(searcher, lambda create: Behaviour(lambda time: create.hparams["lr"]), slots=2)
    assert searcher.finished
    assert searcher.progress({}) == 1.0
    assert len(trace.decisions) == 6 + 2 * 3
    ends = [actions[-1] for actions in trace.decisions.values()]
    assert sum(isinstance(end, Stop) and end.finished for end in ends) == 6


@pytest.mark.parametrize("reason", ["errored", "canceled", "invalid_hp", "completed"])
def test_a_trial_that_ended_is_replaced_after_the_round(reason: Any) -> None:
    searcher = population()
    searcher.start()
    for number in range(5):
        report(searcher, number, 0.1 * number)
    actions = searcher.on_event(Exited(5, reason))
    copies = [action for action in actions if isinstance(action, Create)]
    assert [copy.source for copy in copies] == [0, 1]
    assert Stop(4) in actions
    assert searcher.on_event(Exited(5, reason)) == []


def test_trials_without_a_metric_are_not_copied() -> None:
    searcher = population()
    searcher.start()
    for number in range(5):
        report(searcher, number, math.nan)
    actions = report(searcher, 5, None)
    assert [action.source for action in actions if isinstance(action, Create)] == [None, None]
    assert searcher.failure is None


def test_no_trial_left() -> None:
    searcher = population()
    simulate(searcher, lambda create: Behaviour(lambda time: 1.0, ends_at=5, ends_as="errored"), slots=2)
    assert searcher.failure == "no trial of round 1 of 4 is left to continue from"
    assert searcher.finished


def test_it_cannot_be_extended() -> None:
    with pytest.raises(InvalidConfigurationException, match="pbt"):
        population().on_event(Extended(100))


def test_shares_are_taken_as_written() -> None:
    assert replaced_each_round(100, 0.29) == 29
    assert replaced_each_round(10, 0.2) == 2
    assert replaced_each_round(3, 0.2) == 0


def test_explored_values_are_changed_by_the_factor_and_stay_in_their_ranges() -> None:
    hparams = {"lr": 0.01, "layers": 5, "kind": "a", "nested": {"drop": 0.95, "size": 3}}
    seen: dict[str, set[Any]] = {"lr": set(), "layers": set(), "drop": set()}
    for seed in range(50):
        changed = explore(SPACE, hparams, RandomStream(seed), resample_probability=0, perturb_factor=0.3)
        assert (changed["kind"], changed["nested"]["size"]) == ("a", 3)
        seen["lr"].add(round(changed["lr"], 9))
        seen["layers"].add(changed["layers"])
        seen["drop"].add(round(changed["nested"]["drop"], 9))
    assert seen == {"lr": {0.007, 0.013}, "layers": {3, 7}, "drop": {0.665, 1.0}}
    drawn = {explore(SPACE, hparams, RandomStream(s), resample_probability=1, perturb_factor=0)["lr"] for s in range(9)}
    assert len(drawn) == 9
