"""The contract of the store for runs with external ids of experiment and trial, tested on each kind of database."""

from __future__ import annotations

import pytest

from determined.errors import StoreError
from determined.store.rows import BegunAttempt, EndRow
from determined.store.states import EndState
from determined.store.store import Store
from tests.store.rows import alive, begin, checkpoint, metric


def end(store: Store, run: BegunAttempt, state: EndState = "completed", ended: float = 5000.0) -> None:
    store.write([EndRow(run.trial_id, run.number, state, ended, 1.0)])


def test_a_trial_with_external_ids_continues_after_its_newest_checkpoint(store: Store) -> None:
    first = begin(store, external_experiment="my/../search", external_trial="a\n😀", seed=7)
    saved = checkpoint(first, 5)
    store.write([saved, metric(first, "training", 5, {"loss": 1.0}), metric(first, "training", 8, {"loss": 0.5})])
    end(store, first, "failed")
    again = begin(store, external_experiment="my/../search", external_trial="a\n😀", seed=9)
    assert (again.experiment_id, again.trial_id, again.number) == (first.experiment_id, first.trial_id, 2)
    trial = store.experiments.trial(again.trial_id)
    assert (trial.seed, trial.latest_checkpoint, trial.steps_completed) == (7, saved.checkpoint_id, 5)
    assert store.attempts(again.trial_id)[-1].start_step == 5
    assert [row.steps_completed for row in store.metrics(again.trial_id)] == [5], "what is done again does not count"


def test_only_one_process_at_a_time_works_on_it(store: Store) -> None:
    names = {"external_experiment": "mine", "external_trial": "one"}
    run = begin(store, process=alive(), **names)
    with pytest.raises(StoreError, match=rf"trial {run.trial_id}, which is 'one' of 'mine', is running in process \d+"):
        begin(store, **names)
    end(store, run)
    assert begin(store, **names).trial_id == run.trial_id


def test_several_trials_in_an_experiment(store: Store) -> None:
    runs = [begin(store, process=alive(), external_experiment="mine", external_trial=name) for name in ("a", "b", None)]
    (experiment_id,) = {run.experiment_id for run in runs}
    assert [trial.number for trial in store.experiments.trials(experiment_id)] == [0, 1, 2]
    other = begin(store, external_experiment="yours", external_trial="a")
    assert other.experiment_id != experiment_id

    end(store, runs[0], "failed")
    end(store, runs[2], "completed", ended=6000.0)
    assert store.experiments.get(experiment_id).state == "ACTIVE", "one is at work"
    end(store, runs[1], "stopped")
    found = store.experiments.get(experiment_id)
    assert (found.state, found.ended, found.trial_count) == ("COMPLETED", 6000.0, 3)
    assert [one.state for one in store.experiments.list() if one.id == experiment_id] == ["COMPLETED"]
    store.upkeep.set_archived(experiment_id, True)
    store.upkeep.delete_experiment(experiment_id, None)
    assert begin(store, external_experiment="mine", external_trial="a").number == 1, "its names are free again"
