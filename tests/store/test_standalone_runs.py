"""The record of a standalone run: how it started, how it ended, and its metric."""

from __future__ import annotations

from determined.store.rows import ComparedMetricRow, EndRow
from determined.store.store import Store
from tests.store.experiments import begin_managed, with_trials
from tests.store.rows import begin, metric, start

COMMAND = "python train.py --lr 0.1"


def test_how_a_run_began_and_ended(store: Store) -> None:
    attempt = begin(store, labels=("small", "late"), notes="a first try", command=COMMAND, git_commit="f" * 40)
    end = EndRow(attempt.trial_id, 1, "failed", 5000.0, 3.0, reason="Traceback ...\nValueError: x\0y", exit_code=1)
    store.write([end])

    experiment, trial = store.experiments.get(attempt.experiment_id), store.experiments.trial(attempt.trial_id)
    assert (experiment.labels, experiment.notes) == (["small", "late"], "a first try")
    assert (trial.host, trial.command, trial.git_commit, trial.exit_code) == ("another-host", COMMAND, "f" * 40, 1)
    assert experiment.reason == trial.reason == "Traceback ...\nValueError: x\\x00y"
    (row,) = store.attempts(attempt.trial_id)
    assert (row.command, row.git_commit, row.exit_code) == (COMMAND, "f" * 40, 1)


def test_the_next_attempt_has_no_reason_yet(store: Store) -> None:
    first = begin(store, command=COMMAND)
    store.write([EndRow(first.trial_id, 1, "failed", 5000.0, 3.0, reason="ValueError", exit_code=1)])
    begin(store, previous=first, command="python train.py --resume")
    trial = store.experiments.trial(first.trial_id)
    assert (trial.reason, trial.command, trial.exit_code) == (None, "python train.py --resume", None)
    assert store.experiments.get(first.experiment_id).reason is None


def test_a_late_end_of_an_earlier_attempt_gives_no_reason(store: Store) -> None:
    first = begin(store)
    begin(store, previous=first)
    store.write([EndRow(first.trial_id, 1, "failed", 5000.0, 3.0, reason="ValueError", exit_code=1)])
    assert store.experiments.trial(first.trial_id).reason is None


def test_the_reason_of_a_trial_of_a_search_is_what_its_runner_says(store: Store) -> None:
    lease, (trial_id,) = with_trials(store, 1)
    attempt = begin_managed(store, lease, trial_id)
    store.write([EndRow(trial_id, attempt.number, "failed", 5000.0, 3.0, reason="ValueError")])
    assert store.experiments.trial(trial_id).reason is None


def test_of_several_trials_the_newest_gives_the_reason(store: Store) -> None:
    first = store.begin_attempt(start(external_experiment="sweep", external_trial="a"))
    second = store.begin_attempt(start(external_experiment="sweep", external_trial="b"))
    assert first.experiment_id == second.experiment_id
    store.write([EndRow(second.trial_id, 1, "failed", 5000.0, 3.0, reason="second")])
    store.write([EndRow(first.trial_id, 1, "failed", 5001.0, 3.0, reason="first")])
    assert store.experiments.get(first.experiment_id).reason == "second"
    store.write([EndRow(first.trial_id, 1, "completed", 5001.0, 3.0)])
    assert store.experiments.get(first.experiment_id).reason is None


def test_the_metric_of_a_run_can_be_named_later_and_again(store: Store) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "validation", step, {"mse": step, "accuracy": -step}) for step in (1, 2)])
    assert store.experiments.get(attempt.experiment_id).best is None
    for name, smaller, best in (("mse", True, 1.0), ("accuracy", False, -1.0), ("accuracy", True, -2.0)):
        store.write([ComparedMetricRow(attempt.trial_id, name, smaller)])
        experiment = store.experiments.get(attempt.experiment_id)
        assert (experiment.metric, experiment.smaller_is_better, experiment.best) == (name, smaller, best)
    store.write([metric(attempt, "validation", 3, {"mse": 0.5, "accuracy": -7})])
    assert store.experiments.get(attempt.experiment_id).best == -7.0


def test_the_metric_of_a_search_stays(store: Store) -> None:
    lease, (trial_id,) = with_trials(store, 1)
    before = store.experiments.get(lease.experiment_id)
    store.write([ComparedMetricRow(trial_id, "another", not before.smaller_is_better)])
    after = store.experiments.get(lease.experiment_id)
    assert (after.metric, after.smaller_is_better) == (before.metric, before.smaller_is_better)
