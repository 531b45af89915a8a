"""Reports of several ranks: the lowest rank's value counts, in any order of arrival, and one warning is given."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.store.maintenance import invariants
from determined.store.open import open_store
from determined.store.records import Metric
from determined.store.rows import (
    BegunAttempt,
    EndRow,
    MetadataRow,
    MetricRow,
    StatusRow,
)
from determined.store.sql.ranks import counting
from determined.store.store import Store
from tests.store.experiments import begin_managed, with_trials
from tests.store.rows import begin, checkpoint, start
from tests.store.rows import metric as row_of

REPORTS = st.lists(
    st.tuples(
        st.integers(0, 3),  # rank
        st.sampled_from(["training", "other"]),
        st.integers(1, 2),  # step
        st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    ),
    max_size=8,
    unique_by=lambda report: report[:3],
)


def reported(rank: int, attempt: BegunAttempt, group: str, step: int | None, metrics: dict[str, Any]) -> MetricRow:
    return row_of(attempt, group, step, metrics)._replace(rank=rank)


def shown(store: Store, trial_id: int) -> list[tuple[str, int | None, int, dict[str, Any]]]:
    rows = [(row.group, row.steps_completed, row.rank, row.metrics) for row in store.metrics(trial_id)]
    return sorted(rows, key=lambda row: (row[0], row[1] or 0, row[2]))


@given(REPORTS, st.randoms())
def test_the_lowest_rank_counts_in_any_order(reports: list[tuple[int, str, int, dict[str, int]]], random: Any) -> None:
    rows = [Metric(group, step, body, 1, 0, False, 0.0, rank) for rank, group, step, body in reports]
    expected: dict[tuple[str, int, str], tuple[int, int]] = {}
    for rank, group, step, body in sorted(reports, key=lambda report: report[0]):
        for name, value in body.items():
            expected.setdefault((group, step, name), (rank, value))
    random.shuffle(rows)
    found: dict[tuple[str, int | None, str], tuple[int, int]] = {}
    for row in counting(rows):
        assert not {(row.group, row.steps_completed, name) for name in row.metrics} & found.keys()
        found |= {(row.group, row.steps_completed, name): (row.rank, value) for name, value in row.metrics.items()}
    assert found == expected


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REPORTS, st.data())
def test_stored_reports_do_not_depend_on_their_order(
    store: Store, reports: list[tuple[int, str, int, dict[str, int]]], data: st.DataObject
) -> None:
    results = []
    for order in (reports, data.draw(st.permutations(reports))):
        attempt = begin(store)
        for report in order:
            store.write([reported(report[0], attempt, *report[1:])])
        results.append(shown(store, attempt.trial_id))
    assert results[0] == results[1]


def test_a_newer_attempt_with_fewer_ranks_replaces_what_it_reports_again(store: Store) -> None:
    first = begin(store)
    for rank, step in itertools.product((1, 0), (1, 2, 3)):
        store.write([reported(rank, first, "g", step, {"shared": rank, f"of {rank}": step})])
    second = begin(store, previous=first, steps=2)
    assert shown(store, first.trial_id) == [
        ("g", step, rank, {"shared": 0, "of 0": step} if rank == 0 else {"of 1": step})
        for step in (1, 2)
        for rank in (0, 1)
    ]
    store.write([reported(0, second, "g", 3, {"shared": 9})])
    assert shown(store, first.trial_id)[-1] == ("g", 3, 0, {"shared": 9})
    store.write([reported(1, first, "g", 3, {"late": 1})])  # of the previous attempt: it stays archived
    assert shown(store, first.trial_id)[-1] == ("g", 3, 0, {"shared": 9})
    everything = store.metrics(first.trial_id, archived=True)
    assert len(everything) == 6  # each rank's row for each step


def test_each_rank_counts_its_reports_separately(store: Store) -> None:
    attempt = begin(store)
    rows = [reported(rank, attempt, "cpu", None, {"x": rank}) for rank in (0, 1)]
    rows = [row._replace(sequence=0) for row in rows]
    store.write(rows)
    store.write(rows)
    assert [(row.rank, row.sequence, row.metrics) for row in store.samples(attempt.trial_id)] == [
        (0, 0, {"x": 0}),
        (1, 0, {"x": 1}),
    ]


def test_only_the_chief_decides_about_the_search(store: Store) -> None:
    lease, (trial_id,) = with_trials(store, 1)
    metric = store.experiments.get(lease.experiment_id).metric
    assert metric is not None
    attempt = begin_managed(store, lease, trial_id)
    store.write(
        [
            reported(0, attempt, "validation", 1, {metric: 0.5}),
            reported(1, attempt, "validation", 1, {metric: -1.0}),
            reported(1, attempt, "validation", 2, {metric: -2.0}),
            checkpoint(attempt, 1, "one"),
            checkpoint(attempt, 2, "two"),
        ]
    )
    assert store.experiments.trial(trial_id).best == 0.5
    assert [row.steps_completed for row in store.experiments.validations(trial_id)] == [1]
    assert [row.validation for row in store.checkpoints(trial_id)] == [None, {metric: 0.5}]
    for smaller_is_better in (True, False):
        assert store.experiments.best_validation(lease.experiment_id, metric, smaller_is_better) == 0.5
    assert list(invariants.broken_rules(store._database)) == []


def test_one_process_is_warned_of_a_shared_metric(place: str) -> None:
    stores = [open_store(place) for _ in range(3)]
    attempt = begin(stores[0])
    # Written in transactions of several steps; in one of them no name is shared.
    written = [
        [
            reported(rank, attempt, "g", step, {f"own {rank}": 1, **({"loss": rank} if step == 2 else {})})
            for step in (1, 2)
        ]
        for rank in range(3)
    ]
    told = []
    for store, rows in zip(reversed(stores), reversed(written), strict=True):
        store.write(rows)
        told.append(store.claim_shared_metric(rows))
    assert told[0] is None
    assert told[2] is None
    shared = told[1]
    assert shared is not None
    assert (shared.name, shared.group, shared.steps_completed, shared.rank, shared.lower_rank) == (
        "loss",
        "g",
        2,
        2,
        1,
    )
    again = begin(stores[0], previous=attempt)  # another attempt reports it again
    rows = [reported(rank, again, "g", 1, {"loss": rank}) for rank in (0, 1)]
    stores[0].write(rows)
    assert stores[0].claim_shared_metric(rows[1:]) is not None
    for store in stores:
        store.close()


def test_after_the_warning_no_report_waits_for_other_writers_again(place: str) -> None:
    store, other = open_store(place), open_store(place)
    attempt = begin(store)
    rows = [reported(rank, attempt, "g", 1, {"loss": rank}) for rank in (0, 1)]
    store.write(rows)
    assert store.claim_shared_metric(rows[1:]) is not None
    database = other._database
    with database.transaction():
        database.execute("UPDATE attempts SET seconds = 1")
        assert store.claim_shared_metric(rows[1:]) is None
    store.close()
    other.close()


def test_metadata_of_all_ranks_is_one_map(store: Store) -> None:
    attempt = begin(store)
    trial = attempt.trial_id
    store.write([MetadataRow(trial, 1, {"b": 10, "c": 10}, 10), MetadataRow(trial, 1, {"b": 2, "d": 2}, 2)])
    store.write([MetadataRow(trial, 1, {"a": 0}), MetadataRow(trial, 1, {"e": 2, "b": 3}, 2)])
    assert store.metadata(trial) == {"a": 0, "b": 3, "c": 10, "e": 2}
    assert store.runs()[0].metadata == store.metadata(trial)
    following = begin(store, previous=attempt)
    assert following.metadata == store.metadata(trial)
    store.write([MetadataRow(trial, 1, {"late": 1}, 2)])  # of the previous attempt
    assert "late" not in store.metadata(trial)


def test_a_status_changes_only_what_it_says(store: Store) -> None:
    attempt = begin(store)
    store.write([StatusRow(attempt.trial_id, 1, "training", 0.5, None, True)])
    store.write([StatusRow(attempt.trial_id, 1, early_exit="INVALID_HP")])  # of another rank
    store.write([StatusRow(attempt.trial_id, 1, "validating", 0.75)])
    (run,) = store.runs()
    assert (run.phase, run.progress, run.early_exit, run.stop_acknowledged) == ("validating", 0.75, "INVALID_HP", True)


def test_the_end_that_the_chief_reports_counts(store: Store) -> None:
    attempt = begin(store)
    store.write([EndRow(attempt.trial_id, 1, "completed", 5000.0, 1.0, rank=1)])
    assert store.runs()[0].attempt.state == "completed"
    store.write([EndRow(attempt.trial_id, 1, "failed", 5001.0, 2.0)])
    store.write([EndRow(attempt.trial_id, 1, "completed", 5002.0, 3.0, rank=1)])
    assert (store.runs()[0].attempt.state, store.runs()[0].attempt.seconds) == ("failed", 2.0)


def test_the_newest_attempt_of_a_run_is_found(store: Store) -> None:
    assert store.newest_attempt("key") is None
    first = store.begin_attempt(start()._replace(key="key-0"))
    begin(store)
    assert store.newest_attempt("key") == ("key-0", first)
    second = store.begin_attempt(start(previous=first)._replace(key="key-1"))
    assert store.newest_attempt("key") == ("key-1", second)
    assert (second.trial_id, second.number) == (first.trial_id, 2)


@pytest.mark.parametrize("text", ['{"1": 2}', '{"x": {}}', '{"-1": {}}', "[]"])
def test_a_strange_map_of_ranks_is_a_finding(store: Store, text: str) -> None:
    attempt = begin(store)
    database = store._database
    database.execute("UPDATE trials SET rank_metadata = ? WHERE id = ?", [text, attempt.trial_id])
    (finding,) = invariants.unreadable_values(database)
    assert "rank_metadata" in finding.what
    assert json.loads(text) is not None
