"""Ended trials that continue: they count as running until they end again, at any time, reported once or twice."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.searchers.base import Continue, Create, Exited, Reopened, Validated
from determined.searchers.build import build
from tests.searchers.methods import METHODS, config, make

SPACE = {"lr": {"type": "double", "minval": 0, "maxval": 1}}


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["errored", "completed", "reopen"])), max_size=30))
def test_a_random_search_ends_when_all_have_ended(history: list[tuple[int, str]]) -> None:
    """Whatever happens in between, no trial is created twice, and a restored search behaves like the original."""
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


@pytest.mark.parametrize("name", METHODS)
def test_reopening_no_trial_changes_nothing(name: str) -> None:
    """This includes the middle of a search: a user may have changed only settings that the search does not have."""
    searcher = make(name)
    actions = searcher.start()
    for step in range(1, 40):
        before = json.dumps(searcher.state())
        assert searcher.on_event(Reopened(())) == []
        assert json.dumps(searcher.state()) == before
        numbers = [action.number for action in actions if isinstance(action, (Create, Continue))]
        actions = [
            action for number in numbers for action in searcher.on_event(Validated(number, 1 / step, 64.0 * step))
        ]
