"""Statistics of metrics equal those of the reported values."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.curves.read import read_columns
from determined.curves.summary import summarize
from determined.store.store import Store
from tests.store.rows import begin, metric

_LARGE = int(sys.float_info.max)


def _summary(store: Store, values: list[Any]) -> dict[str, Any]:
    attempt = begin(store)
    store.write([metric(attempt, "g", step, {"x": value}) for step, value in enumerate(values)])
    return summarize(read_columns(store.reports.pages(attempt.trial_id)))["g"]["x"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(values=st.lists(st.one_of(st.floats(-1e6, 1e6), st.integers(-1000, 1000), st.just(math.nan)), min_size=1))
def test_statistics_of_numbers(store: Store, values: list[float]) -> None:
    summary = _summary(store, values)
    finite = [value for value in values if math.isfinite(value)]
    assert (summary["count"], summary["non_finite"]) == (len(values), len(values) - len(finite))
    if finite:
        assert (summary["min"], summary["max"]) == (min(finite), max(finite))
    if len(finite) == len(values):
        assert summary["mean"] == pytest.approx(math.fsum(values) / len(values), abs=1e-6)
        assert summary["last"] == values[-1]
    if all(isinstance(value, int) for value in values):
        assert all(isinstance(summary[name], int) for name in ("last", "min", "max", "sum"))


def test_numbers_beyond_the_range_of_a_float(store: Store) -> None:
    summary = _summary(store, [_LARGE, _LARGE, 10 * _LARGE, 0.5])
    assert (summary["count"], summary["mean"], summary["non_finite"]) == (4, math.inf, 1)
    assert (summary["min"], summary["max"], summary["last"]) == (0.5, _LARGE, 0.5)


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
def test_other_values_have_a_type(store: Store, values: list[Any], kind: str) -> None:
    assert _summary(store, values) == {"count": len(values), "last": values[-1], "type": kind}
