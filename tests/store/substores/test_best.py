"""The steps and the best validation in a trial's row always agree with its metrics."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.store.open import open_store
from determined.store.rows import BegunAttempt
from determined.store.store import Store
from tests.store.experiments import allocate, begin_managed, managed_start, with_trials
from tests.store.rows import begin, metric

ABSENT = object()
NO_NUMBERS = [math.nan, math.inf, -math.inf, "0.1", None, True, [0.1], 10**400, ABSENT]


def validation(attempt: BegunAttempt, step: int, value: Any) -> Any:
    return metric(attempt, "validation", step, {} if value is ABSENT else {"error": value})


def test_the_best_of_a_trial_and_of_its_experiment(store: Store) -> None:
    lease, trials = with_trials(store, 3)
    first, second = (begin_managed(store, lease, trial_id) for trial_id in trials[:2])
    store.write([validation(first, step, value) for step, value in ((1, 0.5), (2, 0.25), (3, 0.75))])
    store.write([validation(second, 1, 0.375), metric(second, "training", 9, {"error": 0.0})])
    store.write([metric(second, "validation", None, {"error": 0.0})])
    found = store.experiments.trials(lease.experiment_id)
    assert [(trial.best, trial.steps_completed) for trial in found] == [(0.25, 3), (0.375, 9), (None, 0)]
    assert store.experiments.get(lease.experiment_id).best == 0.25
    best = store.experiments.best_validation
    assert best(lease.experiment_id, "error", True) == 0.25
    assert best(lease.experiment_id, "error", False) == 0.75
    assert best(lease.experiment_id, "other", True) is None


@pytest.mark.parametrize("smaller_is_better", [True, False])
def test_what_is_no_number_never_wins(store: Store, smaller_is_better: bool) -> None:
    lease, (trial_id,) = with_trials(store, 1, smaller_is_better=smaller_is_better)
    attempt = begin_managed(store, lease, trial_id)
    store.write([validation(attempt, step, value) for step, value in enumerate(NO_NUMBERS)])
    assert store.experiments.trial(trial_id).best is None
    assert store.experiments.best_validation(lease.experiment_id, "error", smaller_is_better) is None
    assert store.experiments.best_validation(lease.experiment_id, "error", not smaller_is_better) is None
    store.write([validation(attempt, 50, 3), validation(attempt, 51, 7.5)])
    best = 3.0 if smaller_is_better else 7.5
    assert store.experiments.trial(trial_id).best == best
    assert store.experiments.get(lease.experiment_id).best == best
    assert len(store.experiments.validations(trial_id)) == len(NO_NUMBERS) + 2  # all are stored as given


def test_a_better_one_after_the_step_of_a_restart_does_not_count(store: Store) -> None:
    lease, (trial_id,) = with_trials(store, 1)
    first = begin_managed(store, lease, trial_id)
    store.write([validation(first, step, 1 / step) for step in range(1, 9)])
    second = begin_managed(store, lease, trial_id, steps=5)
    trial = store.experiments.trial(trial_id)
    assert (trial.best, trial.steps_completed) == (1 / 5, 5)
    store.write([validation(second, 5, 9.0)])  # the best one is measured again
    assert store.experiments.trial(trial_id).best == 1 / 4
    store.write([validation(first, 8, 0.0)])  # by a process that was replaced by a later attempt
    trial = store.experiments.trial(trial_id)
    assert (trial.best, trial.steps_completed) == (1 / 4, 5)
    second_row = store.experiments.validations(trial_id)[1]
    after = (second_row.attempt, second_row.sequence)
    assert [row.steps_completed for row in store.experiments.validations(trial_id, after)] == [3, 4, 5]


def test_a_standalone_run_has_its_length_and_no_best(store: Store) -> None:
    attempt = begin(store)
    store.write([validation(attempt, 7, 0.5)])
    trial = store.experiments.trial(attempt.trial_id)
    assert (trial.best, trial.steps_completed) == (None, 7)


def test_an_attempt_that_begins_while_another_one_reports(store: Store, place: str) -> None:
    """The attempt waits for those reports, and archives them like all others after its start."""
    lease, (trial_id,) = with_trials(store, 1)
    first = begin_managed(store, lease, trial_id)
    asked = managed_start(trial_id, allocate(store, lease, trial_id), steps=1)
    other = open_store(place)
    beginning = threading.Thread(target=other.begin_attempt, args=[asked])
    database: Any = store._database
    insert = database.insert

    def interrupted(into: str, rows: Any, on_conflict: str) -> None:
        insert(into, rows, on_conflict)
        if not beginning.ident:
            beginning.start()
            beginning.join(0.3)

    database.insert = interrupted
    store.write([validation(first, 1, 0.5), validation(first, 2, 0.25)])
    beginning.join(30)
    other.close()
    trial = store.experiments.trial(trial_id)
    assert (trial.best, trial.steps_completed) == (0.5, 1)
    assert [row.steps_completed for row in store.experiments.validations(trial_id)] == [1]


VALUES = st.floats(-2, 2, width=16) | st.integers(-2, 2) | st.sampled_from(NO_NUMBERS)
REPORTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), VALUES), min_size=1, max_size=4)
STEPS = st.lists(st.integers(0, 6) | REPORTS, max_size=12)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, smaller_is_better=st.booleans())
def test_after_any_history_it_agrees_with_the_metrics(store: Store, steps: list[Any], smaller_is_better: bool) -> None:
    """An item of the history is a new attempt from a step on, or reports of the newest attempt or of an earlier one."""
    lease, (trial_id,) = with_trials(store, 1, smaller_is_better=smaller_is_better)
    attempts = [begin_managed(store, lease, trial_id)]
    for step in steps:
        if isinstance(step, int):
            attempts.append(begin_managed(store, lease, trial_id, steps=step))
        else:
            store.write([validation(attempts[-1 - min(age, len(attempts) - 1)], at, value) for age, at, value in step])
        rows = store.metrics(trial_id)
        values = [row.metrics.get("error") for row in rows]
        plain = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        numbers = [float(value) for value in plain if abs(value) < 10 and math.isfinite(value)]
        trial = store.experiments.trial(trial_id)
        assert trial.best == (min if smaller_is_better else max)(numbers, default=None)
        assert trial.steps_completed == max((row.steps_completed or 0 for row in rows), default=0)
        assert store.experiments.best_validation(lease.experiment_id, "error", smaller_is_better) == trial.best
