"""Statistics of metrics equal those of the reported values, as a whole and in parts."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.curves.summary import Statistics, joined_statistics, statistics_of, summarize
from determined.store.records import Metric

_LARGE = int(sys.float_info.max)
_NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([_LARGE, -_LARGE, 10 * _LARGE, -10 * _LARGE]))
_VALUES = st.one_of(_NUMBERS, st.booleans(), st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=1))


def _summary(values: list[Any]) -> dict[str, Any]:
    rows = [Metric("g", step, {"x": value}, 1, step, False, 0.0, 0) for step, value in enumerate(values)]
    return summarize(rows)["g"]["x"]


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.integers(-1000, 1000), st.just(math.nan)), min_size=1))
def test_statistics_of_numbers(values: list[float]) -> None:
    summary = _summary(values)
    finite = [value for value in values if math.isfinite(value)]
    assert (summary["count"], statistics_of(values).non_finite) == (len(values), len(values) - len(finite))
    if finite:
        assert (summary["min"], summary["max"]) == (min(finite), max(finite))
    if len(finite) == len(values):
        assert summary["mean"] == pytest.approx(math.fsum(values) / len(values), abs=1e-6)
        assert summary["last"] == values[-1]
    if all(isinstance(value, int) for value in values):
        assert all(isinstance(summary[name], int) for name in ("last", "min", "max", "sum"))


def test_integers_whose_sum_no_float_can_hold_are_added_to_floats() -> None:
    summary = _summary([_LARGE, _LARGE, 0.5])
    assert (summary["count"], summary["sum"], summary["mean"]) == (3, math.inf, math.inf)
    assert (summary["min"], summary["max"], summary["last"]) == (0.5, _LARGE, 0.5)
    cancelled = statistics_of([0, 10 * _LARGE, -10 * _LARGE])
    assert (cancelled.low, cancelled.high, cancelled.non_finite) == (0, 0, 2)
    statistics = statistics_of([_LARGE, _LARGE, 10 * _LARGE, 0.5])
    assert (statistics.points, statistics.mean, statistics.non_finite) == (4, math.inf, 1)


@given(st.lists(_NUMBERS, min_size=1, max_size=6))
def test_any_numbers_have_a_summary(values: list[float]) -> None:
    summary = _summary(values)
    assert summary["count"] == len(values)
    assert isinstance(summary["mean"], float)


@given(st.lists(_VALUES, min_size=1, max_size=8), st.integers(0, 8))
def test_the_statistics_of_parts_are_those_of_all_values(values: list[Any], cut: int) -> None:
    parts = [statistics_of(part) if part else None for part in (values[:cut], values[cut:])]
    joined, whole = joined_statistics(*parts), statistics_of(values)
    assert joined is not None
    assert _comparable(joined) == _comparable(whole)


def _comparable(statistics: Statistics) -> list[str]:
    # Sums of floats depend on the order; here only whether they are finite is compared.
    total = statistics.total
    finite = total is not None and abs(total) < 1e300
    return [*map(repr, statistics._replace(total=None)), str(finite)]


@given(st.lists(_VALUES, min_size=1, max_size=8))
def test_numbers_among_other_values_have_statistics_of_their_own(values: list[Any]) -> None:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    found = statistics_of(values)
    assert (found.points, found.others) == (len(values), len(values) - len(numbers))
    assert repr(found.last) == repr(values[-1])
    alone = statistics_of(numbers) if numbers else None
    assert repr(found.newest_number) == repr(None if alone is None else alone.last)
    assert repr(found.of_numbers()) == repr({} if alone is None else alone.of_numbers())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False], "boolean"),
        (["a"], "string"),
        ([None], "null"),
        ([[1], [2]], "array"),
        ([{"a": 1}], "object"),
        ([1.5, "a"], "string"),
        (["a", 1.5], "string"),
    ],
)
def test_other_values_have_a_type(values: list[Any], kind: str) -> None:
    assert _summary(values) == {"count": len(values), "last": values[-1], "type": kind}
