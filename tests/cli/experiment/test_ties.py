"""Several trials with the same best value: every part of the library names the same one, the oldest."""

from __future__ import annotations

import pytest

from determined.checkpoint_storage.retention import Candidate, Policy, keep
from determined.cli.checkpoint.downloads import sorted_by_metric
from determined.cli.running.text_view import summarize
from determined.cli.tensorboard.start import chosen_trials
from determined.experimental import Determined, client
from determined.store.store import Store
from tests.cli.det_command import det_json
from tests.cli.filling import Steps, add_trials, lead, new_experiment, work

BEST_STEP = 12


@pytest.fixture
def tied(store: Store) -> tuple[int, list[int]]:
    """Return an experiment with five trials, of which the last four reach an accuracy of 1 and save a checkpoint.

    Of these the oldest needs the most batches and reports last, so neither its step nor its time makes it the first.
    """
    experiment_id = new_experiment(store, metric="accuracy", smaller_is_better=False)
    lease = lead(store, experiment_id)
    trials = add_trials(store, lease, [{"n": n} for n in range(5)])
    for number in (0, 4, 3, 2, 1):
        step = BEST_STEP if number == 1 else 4 + number
        best = 0.5 if number == 0 else 1.0
        later = [(20, {"accuracy": best}), (21, {"accuracy": float("nan")})]
        work(
            store,
            lease,
            trials[number],
            Steps(validation=[(1, {"accuracy": 0.25}), (step, {"accuracy": best}), *later], saved=[1, step, 20, 21]),
        )
    return experiment_id, trials


def test_of_equal_trials_the_oldest_is_the_best_everywhere(store: Store, tied: tuple[int, list[int]]) -> None:
    experiment_id, trials = tied
    oldest, checkpoint = trials[1], f"checkpoint-{trials[1]}-{BEST_STEP}"
    summary = summarize(store, experiment_id)
    assert summary.best is not None
    assert summary.checkpoint is not None
    assert (summary.best.id, summary.checkpoint.checkpoint_id) == (oldest, checkpoint)

    listed = [row["uuid"] for row in det_json("e", "lc", str(experiment_id), "--best", "9")]
    assert listed[:2] == [checkpoint, f"checkpoint-{oldest}-20"]
    assert [row.rsplit("-", 1)[0] for row in listed[2:8:2]] == [f"checkpoint-{trial}" for trial in trials[2:]]
    experiment = store.experiments.get(experiment_id)
    ordered = sorted_by_metric(experiment, store.experiments.checkpoints(experiment_id), None, None)
    assert [row.checkpoint_id for row in ordered[:9]] == listed
    assert det_json("e", "compare", str(experiment_id))["contenders"][0]["trial_id"] == oldest
    assert det_json("e", "compare", str(experiment_id))["contenders"][0]["best_at"] == BEST_STEP
    assert [trial.id for trial in chosen_trials(store, [experiment_id], [])] == [*trials[1:], trials[0]]


def test_of_equal_trials_the_oldest_is_the_best_in_the_sdk(tied: tuple[int, list[int]]) -> None:
    experiment_id, trials = tied
    experiment = Determined().get_experiment(experiment_id)
    best = experiment.best_trial()
    assert best is not None
    assert best.id == trials[1]
    for order in client.OrderBy:
        listed = experiment.list_trials(client.TrialSortBy.BEST_VALIDATION_METRIC, order)
        equal = [trial.id for trial in listed if trial.best_validation == 1]
        assert equal == trials[1:]
    checkpoint = f"checkpoint-{trials[1]}-{BEST_STEP}"
    assert experiment.list_checkpoints(max_results=1)[0].uuid == checkpoint
    assert best.list_checkpoints(max_results=1)[0].uuid == checkpoint
    with pytest.warns(FutureWarning):
        assert experiment.top_checkpoint().uuid == checkpoint


def test_the_best_checkpoint_of_equal_trials_stays(store: Store, tied: tuple[int, list[int]]) -> None:
    experiment_id, trials = tied
    stored = [
        Candidate(
            row.checkpoint_id,
            row.trial_id,
            row.steps_completed,
            (row.validation or {})["accuracy"],
            row.steps_completed,
        )
        for row in reversed(store.experiments.checkpoints(experiment_id))
    ]
    policy = Policy(save_experiment_best=1, save_trial_best=0, save_trial_latest=0, smaller_is_better=False)
    assert keep(stored, policy) == {f"checkpoint-{trials[1]}-{BEST_STEP}"}
