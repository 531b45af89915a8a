"""Assigned and passed hyperparameters: which values a trial trains with, and which of them were replaced."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from determined.config.effective import differences, effective, value_text

NAMES = st.sampled_from(["lr", "net", "depth", "a.b", ""])
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["x", "3", "torch.nn.ReLU"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
HPARAMS = st.dictionaries(NAMES, VALUES, max_size=4)


def shown(assigned: dict[str, Any], passed: dict[str, Any] | None) -> list[str]:
    return [str(difference) for difference in differences(assigned, passed)]


@given(HPARAMS, HPARAMS)
def test_what_was_passed_is_in_force_and_the_rest_is_as_assigned(
    assigned: dict[str, Any], passed: dict[str, Any]
) -> None:
    used = effective(assigned, passed)
    assert used.keys() == assigned.keys() | passed.keys()
    assert not differences(used, passed)
    assert {name: used[name] for name in assigned if name not in passed} == {
        name: value for name, value in assigned.items() if name not in passed
    }


@given(HPARAMS)
def test_what_is_passed_on_makes_no_difference(assigned: dict[str, Any]) -> None:
    assert not differences(assigned, json.loads(json.dumps(assigned)))
    assert not differences(assigned, {})
    assert not differences(assigned, None)
    assert value_text(effective(assigned, None)) == value_text(assigned)


def test_differences_name_both_values() -> None:
    assert shown({"lr": 0.1, "net": {"depth": 3, "act": "relu"}}, {"lr": 0.2, "net": {"depth": 3, "act": None}}) == [
        "lr = 0.2 (assigned: 0.1)",
        'net.act = null (assigned: "relu")',
    ]
    assert shown({"net": {"depth": 3}}, {"net": 4}) == ['net = 4 (assigned: {"depth": 3})']
    assert shown({"lr": 1}, {"other": 2}) == []


def test_numbers_are_compared_by_value_and_other_types_are_not() -> None:
    assert not differences({"a": 1, "b": math.nan, "c": (1, 2)}, {"a": 1.0, "b": math.nan, "c": [1.0, 2]})
    assert shown({"a": 1, "b": "1"}, {"a": True, "b": 1}) == ["a = true (assigned: 1)", 'b = 1 (assigned: "1")']


def test_secrets_are_not_shown() -> None:
    assert shown({"api_token": "s3cr3t-one", "lr": 1}, {"api_token": "s3cr3t-two", "lr": 2}) == ["lr = 2 (assigned: 1)"]
    (url,) = shown({"url": "http://me:s3cr3t@one/"}, {"url": "http://me:s3cr3t@two/"})
    assert "s3cr3t" not in url


def test_long_values_are_cut() -> None:
    (line,) = shown({"words": "x" * 1000}, {"words": "y" * 1000})
    assert len(line) < 200
