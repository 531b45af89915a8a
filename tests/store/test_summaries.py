"""Metrics of a trial in a few numbers."""

from __future__ import annotations

import math
import sys

from hypothesis import given
from hypothesis import strategies as st

from determined.store.records import Metric
from determined.store.sql.summaries import summarize

_LARGE = int(sys.float_info.max)
_NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([_LARGE, -_LARGE, 10 * _LARGE, -10 * _LARGE]))


def summary_of(values: list[float]) -> dict[str, float]:
    rows = [Metric("g", step, {"x": value}, 1, step, False, 0.0, 0) for step, value in enumerate(values)]
    return summarize(rows)["g"]["x"]


def test_integers_whose_sum_no_float_can_hold_are_added_to_floats() -> None:
    summary = summary_of([_LARGE, _LARGE, 0.5])
    assert (summary["count"], summary["sum"], summary["mean"]) == (3, math.inf, math.inf)
    assert (summary["min"], summary["max"], summary["last"]) == (0.5, _LARGE, 0.5)


@given(st.lists(_NUMBERS, min_size=1, max_size=6))
def test_any_numbers_have_a_summary(values: list[float]) -> None:
    summary = summary_of(values)
    assert summary["count"] == len(values)
    assert isinstance(summary["mean"], float)
