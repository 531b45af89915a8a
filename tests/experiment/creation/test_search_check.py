"""When a search is pointless: decided from the assigned and the passed hyperparameters of trials."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.experiment.creation.search_check import SearchCheck
from determined.experiment.runner.effective_hparams import EffectiveHparams
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.trial_values import RowValues, TrialSpec

SPACE = {
    "lr": {"type": "double", "minval": 0, "maxval": 9},
    "net": {"depth": {"type": "int", "minval": 0, "maxval": 9}, "kind": "mlp"},
    "only": {"type": "categorical", "vals": ["one"]},
    "batch": 16,
}
VALUE = st.integers(0, 1)
ASSIGNED = st.builds(
    lambda lr, depth: {"lr": lr, "net": {"depth": depth, "kind": "mlp"}, "only": "one", "batch": 16},
    st.integers(0, 2),
    VALUE,
)
PASSED = st.builds(
    lambda lr, depth: {
        **({} if lr is None else {"lr": lr}),
        **({} if depth is None else {"net": {"depth": depth}}),
        "batch": 16,
    },
    st.none() | VALUE,
    st.none() | VALUE,
)
Trials = list[tuple[dict[str, Any], dict[str, Any]]]


def searched(hparams: dict[str, Any]) -> dict[str, Any]:
    known = {"lr": hparams.get("lr"), "depth": hparams.get("net", {}).get("depth")}
    return {name: value for name, value in known.items() if value is not None}


def in_vain(trials: Trials) -> bool:
    """The rule, written without regard to cost."""
    points = [searched(passed) for _, passed in trials]
    if not points or not points[0] or any(point != points[0] for point in points):
        return False
    assignments = [searched(assigned) for assigned, _ in trials]
    three = any(a != b and b != c and a != c for a, b, c in combinations(assignments, 3))
    ignored = any(len({assignment[name] for assignment in assignments}) > 1 for name in points[0])
    return three and ignored


@given(
    st.lists(st.tuples(ASSIGNED, PASSED), max_size=8) | st.lists(st.tuples(ASSIGNED, st.just({"lr": 1})), max_size=8)
)
def test_the_verdict_comes_with_the_first_trial_that_proves_it(trials: Trials) -> None:
    check = SearchCheck(SPACE)
    for number, (assigned, passed) in enumerate(trials):
        reason = check.take(number, assigned, passed)
        assert (reason is not None) == in_vain(trials[: number + 1])
        if reason is not None:
            return


@given(st.lists(ASSIGNED, min_size=1, max_size=8))
def test_values_that_are_passed_on_are_never_a_reason(assignments: list[dict[str, Any]]) -> None:
    passing, some = SearchCheck(SPACE), SearchCheck(SPACE)
    for number, assigned in enumerate(assignments):
        assert passing.take(number, assigned, assigned) is None
        assert some.take(number, assigned, {"net": {"depth": assigned["net"]["depth"]}}) is None


def test_a_space_without_ranges() -> None:
    check = SearchCheck({"lr": 1, "only": {"type": "categorical", "vals": [2]}})
    assert [check.take(number, {"lr": number, "only": 2}, {"lr": 7, "only": 3}) for number in range(5)] == [None] * 5


def live(number: int, lr: float) -> LiveTrial:
    hparams = {"lr": lr, "net": {"depth": 1}}
    spec = TrialSpec(id=10 + number, number=number, request_id="", hparams=hparams, seed=0, bracket=0, rungs=())
    return LiveTrial(spec, RowValues(state="RUNNING"))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]])
def test_the_order_in_which_trials_begin_does_not_matter(order: list[int]) -> None:
    """Trial 3 passes other values: with fewer slots it would not have started before the first three prove the rule."""
    effects, trials = EffectiveHparams(SPACE), {number: live(number, number / 10) for number in range(4)}
    found = []
    for number in order:
        effects.note(trials[number], {"lr": 5.0 if number < 3 else 0.3})
        found.append(effects.reason_to_stop(trials))
    (reason,) = [reason for reason in found if reason is not None]
    assert "trials 10, 11, 12 trained with the same values: lr = 5 (assigned: 0, 0.1, 0.2)" in reason


def test_a_trial_that_ended_before_it_trained_is_left_out() -> None:
    effects, trials = EffectiveHparams(SPACE), {number: live(number, number / 10) for number in range(4)}
    for number in (0, 2, 3):
        effects.note(trials[number], {"lr": 5.0})
    assert effects.reason_to_stop(trials) is None
    trials[1].end("ERROR")
    assert "trials 10, 12, 13" in (effects.reason_to_stop(trials) or "")
