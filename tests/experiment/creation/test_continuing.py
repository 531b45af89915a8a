"""An ended experiment continues with a changed configuration, exactly as if it had been planned so."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import pytest

from determined.errors import DeterminedError, InvalidExperimentConfig, InvalidExperimentException
from determined.experiment.control import request
from determined.experiment.creation.continuation import reopen
from determined.store.store import Store
from tests.experiment.conftest import MakeSearch
from tests.helpers import warm
from tests.helpers.searches import DET, Search

LINEAR: dict[str, Any] = {
    "name": "longer",
    "entrypoint": "model_def:LinearTrial",
    "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
    "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 32}},
    "min_checkpoint_period": {"batches": 8},
    "min_validation_period": {"batches": 16},
    "scheduling_unit": 4,
    "reproducibility": {"experiment_seed": 3},
}


def scripts(searcher: dict[str, Any], entrypoint: str = "python3 train.py 0.0 4") -> dict[str, Any]:
    return {
        "name": "scripts",
        "entrypoint": entrypoint,
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}, "wd": 0.5},
        "searcher": {"metric": "loss", **searcher},
        "reproducibility": {"experiment_seed": 5},
        "max_restarts": 0,
    }


def start_continuing(search: Search, experiment: int, *options: str) -> subprocess.Popen[str]:
    with search.said.open("a") as output:
        return warm.Popen(
            [*DET, "experiment", "continue", str(experiment), "--slots", "2", *options],
            env=search.env(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )


def kill_at(search: Search, runner: subprocess.Popen[str], steps: int) -> None:
    search.wait_for(lambda store: store.experiments.trial(1).steps_completed >= steps)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    search.wait_for_exits()


@pytest.mark.thorough
def test_a_longer_training_is_the_planned_one_bit_for_bit(make_search: MakeSearch) -> None:
    planned = make_search("linear", {**LINEAR, "searcher": {**LINEAR["searcher"], "max_length": {"batches": 320}}})
    planned.activate(planned.create())
    search = make_search("linear", LINEAR)
    experiment = search.create()
    search.activate(experiment)
    kill_at(search, start_continuing(search, experiment, "--config", "searcher.max_length.batches=320"), 48)
    search.activate(experiment)
    assert search.record(experiment) == planned.record(1)
    with search.opened() as store:
        (trial,) = store.experiments.trials(experiment)
        assert (trial.id, trial.runs, trial.restarts, trial.steps_completed) == (1, 3, 0, 320)
        assert [attempt.number for attempt in store.attempts(trial.id)] == [1, 2, 3]
        assert store.experiments.get(experiment).config["searcher"]["max_length"] == {"batches": 320}


@pytest.mark.thorough
def test_the_only_trial_continues_and_survives_being_killed(
    make_search: MakeSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continue it with a longer command and other constants; every step is recorded once, as without interruption."""
    search = make_search("steady", scripts({"name": "single"}))
    monkeypatch.setenv("XDG_DATA_HOME", str(search.home))
    experiment = search.create()
    with search.opened() as store:
        reopen(store, experiment, {"hyperparameters": {"wd": 0.25}})  # before it ever ran
        search.activate(experiment)
        (trial,) = store.experiments.trials(experiment)
        assert (trial.state, trial.hparams["wd"]) == ("COMPLETED", 0.25)
        lr = trial.hparams["lr"]
        with pytest.raises(InvalidExperimentException, match="nothing is left to do: say what shall change"):
            reopen(store, experiment, {})
        with pytest.raises(InvalidExperimentConfig, match="expected a constant"):
            reopen(store, experiment, {"hyperparameters": {"lr": {"type": "double", "minval": 2, "maxval": 3}}})
        longer = ["--config", "entrypoint=python3 train.py 0.1 20", "--config", "hyperparameters.new={x: [2]}"]
        kill_at(search, start_continuing(search, experiment, *longer), 6)
        assert store.experiments.get(experiment).config["entrypoint"] == "python3 train.py 0.1 20"
        search.activate(experiment)
        (trial,) = store.experiments.trials(experiment)
        assert (trial.state, trial.runs, trial.restarts) == ("COMPLETED", 3, 0)
        assert trial.hparams == {"lr": lr, "wd": 0.25, "new": {"x": [2]}}
        reported = [(row.steps_completed, row.metrics["loss"]) for row in store.metrics(trial.id)]
    assert sorted(reported) == [(step, lr + 1 / (step + trial.seed % 7)) for step in range(1, 21)]


def test_failed_trials_start_again_with_the_corrected_command(make_search: MakeSearch) -> None:
    """As after a mistake in the command: the trials are the same, one is added, and all may restart more often."""
    config = {**scripts({"name": "random", "max_trials": 2}, "python3 train.py 0.2"), "resources": {"max_slots": 1}}
    search = make_search("steady", config)
    experiment = search.create()
    search.activate(experiment, expect=1)
    mended = ["--config", "entrypoint=python3 train.py 0.2 8", "--config", "searcher.max_trials=3"]
    runner = start_continuing(search, experiment, *mended)

    def running_trials(store: Store) -> int:
        return sum(trial.state == "RUNNING" for trial in store.experiments.trials(experiment))

    search.wait_for(lambda store: running_trials(store) == 1)
    with search.opened() as store:
        store.upkeep.change_config(experiment, "resources", {"max_slots": 2})
        search.wait_for(lambda store: running_trials(store) == 2)
        assert runner.wait(60) == 0
        trials = store.experiments.trials(experiment)
        assert store.experiments.get(experiment).config["resources"]["max_slots"] == 2
    states = [(trial.number, trial.state, trial.steps_completed, trial.runs) for trial in trials]
    assert states == [(0, "COMPLETED", 8, 2), (1, "COMPLETED", 8, 2), (2, "COMPLETED", 8, 1)]


def test_a_search_that_compared_its_trials_is_extended_with_other_settings(
    make_search: MakeSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are stored before the runner extends the search; after a crash in between the same command completes
    it.
    """
    searcher = {"name": "adaptive_asha", "max_trials": 2, "max_time": 4, "time_metric": "batches"}
    search = make_search("steady", scripts(searcher))
    monkeypatch.setenv("XDG_DATA_HOME", str(search.home))
    experiment = search.create()
    changes = {"searcher": {"max_trials": 3}, "max_restarts": 4}
    with search.opened() as store:
        request(store, experiment, "cancel")
        with pytest.raises(InvalidExperimentConfig, match=r"searcher.max_length: it cannot be changed any more"):
            reopen(store, experiment, {"searcher": {"max_length": {"batches": 9}}})
        for _ in range(2):
            assert reopen(store, experiment, changes).max_trials == 3
        row = store.experiments.get(experiment)
        assert (row.state, row.config["max_restarts"], row.config["searcher"]["max_trials"]) == ("ACTIVE", 4, 2)
        assert [entry.event["event"] for entry in store.experiments.journal(experiment)] == ["start", "reopened"]


FIXED: list[tuple[dict[str, Any], str]] = [
    ({"searcher": {"name": "grid"}}, "searcher.name: it cannot be changed any more"),
    ({"searcher": {"metric": "other"}}, "compared, by it; det experiment fork --config changes it"),
    ({"searcher": {"max_trials": 1}}, "expected more than the present 2"),
    ({"searcher": {"max_length": {"batches": 3}}}, "searcher.max_length: expected at least the present 4, got 3"),
    ({"hyperparameters": {"wd": 2}}, "hyperparameters.wd: it cannot be changed any more: the hyperparameters of"),
    ({"reproducibility": {"experiment_seed": 9}}, "reproducibility.experiment_seed: it cannot"),
    ({"checkpoint_storage": {"type": "shared_fs", "host_path": "/tmp"}}, "checkpoint_storage: it cannot be changed"),
    ({"name": "x", "labels": ["y"]}, "name: it cannot be changed any more: det experiment set"),
    ({"entrypoint": "python3 none.py"}, "there is no none.py"),
    ({"max_restart": 2}, "max_restart"),
]


def test_what_is_refused_is_named_and_changes_nothing(make_search: MakeSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    search = make_search("steady", scripts({"name": "random", "max_trials": 2, "max_length": {"batches": 4}}))
    monkeypatch.setenv("XDG_DATA_HOME", str(search.home))
    experiment = search.create()
    with search.opened() as store:
        request(store, experiment, "cancel")
        before = store.experiments.get(experiment)
        for changes, words in FIXED:
            with pytest.raises(DeterminedError) as refused:
                reopen(store, experiment, changes)
            assert words in str(refused.value), changes
        assert store.experiments.get(experiment) == before
        assert store.experiments.journal(experiment) == []
        done = reopen(store, experiment, {"searcher": {"max_length": {"epochs": 1}, "max_trials": 3}})
        assert done.changed == ("searcher.max_length", "searcher.max_trials")
        assert len(store.experiments.trials(experiment)) == 3
