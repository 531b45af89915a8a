"""Metric values as numbers: no value of any type raises, and only finite numbers are compared."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.config.metric_values import finite_number, number, time_of

VALUES = st.one_of(
    st.integers(),
    st.integers(min_value=1).map(lambda power: 10 ** (power % 1000)),
    st.floats(),
    st.booleans(),
    st.text(),
    st.none(),
    st.lists(st.integers()),
    st.decimals(),
)


@given(VALUES)
def test_any_value_is_a_number_or_none(value: Any) -> None:
    found = number(value)
    assert (found is None) == (isinstance(value, bool) or not isinstance(value, (int, float)))
    finite = finite_number(value)
    assert finite is None or (finite == found and math.isfinite(finite))
    time = time_of("epochs", 1, {"epochs": value})
    assert time == finite


@pytest.mark.parametrize(
    ("value", "expected"),
    [(10**400, math.inf), (-(10**400), -math.inf), (2**1024, math.inf), (2**1023, 2.0**1023), (True, None)],
)
def test_integers_beyond_floats_are_infinite(value: int, expected: float | None) -> None:
    assert number(value) == expected
    assert finite_number(value) == (expected if expected is not None and math.isfinite(expected) else None)


def test_what_is_no_number() -> None:
    assert [number(value) for value in ("1", None, [1], {"a": 1}, Decimal(1), True)] == [None] * 6
