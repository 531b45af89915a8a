"""Columns of reports equal the reports, for all kinds of reports."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.config.metric_values import number
from determined.curves.read import read_columns
from determined.store.store import Store
from tests.store.rows import begin, metric

_NAMES = st.sampled_from(["loss", "accuracy", 'quo"te, [x]', "ünï"])
_VALUES = st.one_of(
    st.floats(),
    st.integers(-(10**400), 10**400),
    st.booleans(),
    st.none(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)
_REPORTS = st.lists(
    st.tuples(
        st.sampled_from(["training", "validation", "my group"]),
        st.integers(0, 20),
        st.integers(0, 2),
        st.dictionaries(_NAMES, _VALUES, max_size=3),
    ),
    max_size=25,
)


def _expected(store: Store, trial_id: int) -> dict[tuple[str, str], tuple[list[tuple[int, float]], list[Any]]]:
    found: dict[tuple[str, str], tuple[list[tuple[int, float]], list[Any]]] = {}
    for row in sorted(store.metrics(trial_id), key=lambda row: (row.group, row.steps_completed or 0, row.rank)):
        for name, value in row.metrics.items():
            numbers, others = found.setdefault((row.group, name), ([], []))
            step, as_number = row.steps_completed or 0, number(value)
            if as_number is None:
                others.append((step, value))
            else:
                numbers.append((step, as_number))
    return found


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(reports=_REPORTS, rows_per_page=st.integers(1, 30))
def test_columns_are_the_reports(
    store: Store, reports: list[tuple[str, int, int, dict[str, Any]]], rows_per_page: int
) -> None:
    attempt = begin(store)
    rows = [metric(attempt, group, step, metrics)._replace(rank=rank) for group, step, rank, metrics in reports]
    for row in rows:
        store.write([row])
    pages = store.reports.pages(attempt.trial_id, rows_per_page=rows_per_page)
    columns = read_columns(pages)
    expected = _expected(store, attempt.trial_id)
    assert columns.keys() == expected.keys()
    for key, column in columns.items():
        numbers, others = expected[key]
        only_numbers = column.numbers()
        assert only_numbers.steps.tolist() == [step for step, _ in numbers]
        assert all(map(_same, only_numbers.values.tolist(), [value for _, value in numbers]))
        assert len(only_numbers.values) == len(numbers) == len(only_numbers.times) == len(only_numbers.reported)
        rest = zip(column.steps.tolist(), column.reported, strict=True)
        assert [(step, value) for step, value in rest if number(value) is None] == others
        assert len(column.steps) == len(column.times) == len(column.values) == len(numbers) + len(others)


def test_half_of_a_surrogate_pair_in_a_name_is_replaced_as_browsers_do(store: Store) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "training", 1, {"\ud800 half": 1.0})])
    assert list(read_columns(store.reports.pages(attempt.trial_id))) == [("training", "\ufffd half")]


def test_large_integers_are_not_rounded(store: Store) -> None:
    """Integers of more than 64 bits stay integers, as numbers and inside of other values; floats stay floats."""
    attempt = begin(store)
    reports: list[dict[str, Any]] = [
        {"samples": 2**64 + 1, "lowest": -(2**63) - 1, "shape": [2**70 + 1], "loss": 1e300, "exact": 2**63 - 1},
        {"samples": 3, "lowest": -4, "shape": [5], "loss": 0.00036031260123026154, "exact": 2**64 - 1},
    ]
    store.write([metric(attempt, "training", step, report) for step, report in enumerate(reports)])
    store.write([metric(attempt, "validation", 0, {"seed": 2**200 + 1})])
    columns = read_columns(store.reports.pages(attempt.trial_id))
    for name in reports[0]:
        found = columns["training", name].reported
        assert found == [report[name] for report in reports]
        assert [type(value) for value in found] == [type(report[name]) for report in reports]
    assert columns["validation", "seed"].reported == [2**200 + 1]
