"""The states of experiments and trials are defined in one place."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from determined.experimental import client
from determined.stop_request import OF_USERS, TO_WORKERS, StopRequest, is_stronger
from determined.store import states

SOURCE = Path(states.__file__).parents[1]
# The definition, and the public enumerations of the SDK, whose names existing programs use.
DEFINITIONS = {SOURCE / "store" / "states.py", SOURCE / "experimental" / "enums.py"}


def collections_of_words(path: Path) -> list[tuple[int, set[str]]]:
    """Return the line and the words of each tuple, list and set of a file, and of each SQL list in its strings."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            words = {item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)}
            found.append((node.lineno, words))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, {word for word in get_args(states.TrialState) if f"'{word}'" in node.value}))
    return found


@pytest.mark.parametrize("ended", [states.EXPERIMENT_ENDED, states.TRIAL_ENDED], ids=["experiment", "trial"])
def test_terminal_states_are_listed_once(ended: tuple[str, ...]) -> None:
    """A list that includes or excludes all terminal states is derived from the definition, not written again."""
    live = set(get_args(states.TrialState)) - set(states.TRIAL_ENDED)
    copies = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if path not in DEFINITIONS
        for line, words in collections_of_words(path)
        if words >= set(ended) or words >= live
    ]
    assert copies == []


def test_the_sdk_shows_every_stored_state() -> None:
    assert {state.value for state in client.ExperimentState} >= set(get_args(states.ExperimentState))
    assert {state.value for state in client.TrialState} >= set(get_args(states.TrialState))


def test_terminal_states_are_states() -> None:
    assert set(states.EXPERIMENT_ENDED) < set(get_args(states.ExperimentState))
    assert set(states.UNSUCCESSFUL) < set(states.EXPERIMENT_ENDED) < set(states.TRIAL_ENDED)
    assert set(states.EXPERIMENT_RUNNING).isdisjoint(states.EXPERIMENT_ENDED)


def test_stop_requests_are_ordered_by_strength() -> None:
    """A kill overrides everything, a second Ctrl-C overrides a pause but not a cancel, nothing overrides itself."""
    words: tuple[StopRequest, ...] = get_args(StopRequest)
    assert [w for w in words if is_stronger(w, "pause")] == ["halt", "cancel", "kill"]
    assert not is_stronger("halt", "cancel")
    for word in words:
        assert is_stronger(word, None)
        assert not is_stronger(word, word)
        assert not is_stronger(None, word)
        assert is_stronger("kill", word) == (word != "kill")
    assert set(OF_USERS) < set(TO_WORKERS) < set(words)
