"""Trials that were over and go on: counted as at work until they are over again, at any time, told once or twice."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from determined.searchers.base import Create, Exited, Reopened
from determined.searchers.build import build
from tests.searchers.methods import config

SPACE = {"lr": {"type": "double", "minval": 0, "maxval": 1}}


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["errored", "completed", "reopen"])), max_size=30))
def test_a_random_search_ends_when_all_are_over(history: list[tuple[int, str]]) -> None:
    """Whatever happens in between, no trial is created twice, and one that restores its state has the same future."""
    searcher = build(config("random", max_trials=5, max_concurrent_trials=2), SPACE, 7)
    actions = list(searcher.start())
    created = [action.number for action in actions if isinstance(action, Create)]
    over: set[int] = set()
    for number, what in history:
        if number not in created:
            continue
        event = Reopened((number,)) if what == "reopen" else Exited(number, what)  # type: ignore[arg-type]
        (over.discard if what == "reopen" else over.add)(number)
        twin = build(config("random", max_trials=5, max_concurrent_trials=2), SPACE, 7)
        twin.restore(json.loads(json.dumps(searcher.state())))
        answer = searcher.on_event(event)
        assert twin.on_event(event) == answer
        created += [action.number for action in answer if isinstance(action, Create)]
        assert searcher.finished == (len(over) == 5)
        assert 0 <= searcher.progress({}) <= 1
    assert created == list(range(len(created)))


def test_what_was_compared_stays_over() -> None:
    searcher = build(config("adaptive_asha", max_trials=4, max_time=16, time_metric="batches"), SPACE, 7)
    searcher.start()
    before = searcher.state()
    assert searcher.on_event(Reopened(())) == []
    assert searcher.state() == before
