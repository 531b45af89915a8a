"""Experiments that the SDK creates, follows and controls while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined.errors import (
    CheckpointInUse,
    DeterminedError,
    ExperimentHeld,
    InvalidExperimentConfig,
    InvalidExperimentException,
)
from determined.experimental import Experiment, client, experiment_control
from determined.experimental.client import ExperimentState, Trial, TrialState
from determined.queue.files import QueueFiles
from determined.queue.status import read_status
from determined.store.open import checked_place
from tests.experimental.conftest import MODELS
from tests.helpers.waiting import wait_until

STEADY = MODELS / "steady"


def config(seconds: float, length: int, **searcher: Any) -> dict[str, Any]:
    return {
        "name": "steady",
        "entrypoint": f"python3 train.py {seconds} {length}",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 2, **searcher},
        "max_restarts": 0,
    }


def reloaded(trial: Trial) -> Trial:
    trial.reload()
    return trial


def state_of(experiment: Experiment) -> ExperimentState:
    experiment.reload()
    return experiment.state


def test_watched_paused_continued_and_ended(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    experiment = client.create_experiment(config(0.05, 100_000), STEADY)
    assert experiment.state is ExperimentState.ACTIVE
    trial = experiment.await_first_trial()
    assert trial.experiment_id == experiment.id

    # Its reports can be read while it continues.
    wait_until(lambda: len(list(trial.iter_metrics("validation"))) > 3)
    seen = len(list(trial.iter_metrics("validation")))
    wait_until(lambda: trial.summary_metrics["validation"]["loss"]["count"] > seen)
    assert experiment.best_trial() is not None
    for delete in (experiment.delete, experiment.delete_tensorboard_files):
        with pytest.raises(ExperimentHeld, match="is being run by process"):
            delete()
    with pytest.raises(InvalidExperimentException, match="is ACTIVE: it can be archived once"):
        experiment.archive()

    experiment.pause()
    wait_until(lambda: state_of(experiment) is ExperimentState.PAUSED)
    with pytest.raises(ValueError, match=f"experiment {experiment.id} is paused"):
        experiment.wait()
    saved = {checkpoint.training.trial_id: checkpoint for checkpoint in experiment.list_checkpoints()}
    assert len(saved) == 2
    with pytest.raises(DeterminedError, match="would resume from it"):
        saved[trial.id].delete()
    with pytest.raises(InvalidExperimentException, match="is PAUSED: it can be deleted once it has ended"):
        experiment.delete()

    experiment.activate()
    assert experiment.state is ExperimentState.ACTIVE
    experiment.activate()  # a repetition changes nothing
    trial.reload()
    before = trial.steps_completed
    wait_until(lambda: reloaded(trial).steps_completed > before)

    # One trial is killed, the other continues.
    trial.kill()
    wait_until(lambda: reloaded(trial).state is TrialState.CANCELED)
    other = experiment.list_trials()[1]
    assert other.state is TrialState.RUNNING
    trial.kill()  # it has ended already

    experiment.cancel()
    assert experiment.wait(interval=0.1) is ExperimentState.CANCELED
    assert other.list_checkpoints(), "a canceled trial saves a last checkpoint"
    with pytest.raises(InvalidExperimentException, match="experiment 1 is CANCELED"):
        experiment.activate()
    assert capfd.readouterr() == ("", ""), "the runner speaks in its own log"


def test_it_outlives_the_program_that_created_it_and_the_processes_that_ran_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_control, "_SECONDS_WITHOUT_RUNNER", 0.5)
    program = (
        "import sys\nfrom determined.experimental import client\n"
        "experiment = client.create_experiment(eval(sys.argv[1]), sys.argv[2])\nprint(experiment.id)"
    )
    arguments = [sys.executable, "-c", program, repr(config(0.02, 100)), str(STEADY)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (done.stderr, done.returncode) == ("", 0)

    experiment = client.get_experiment(int(done.stdout))
    wait_until(lambda: any(trial.steps_completed > 5 for trial in experiment.list_trials()))
    experiment.reload()
    holder = experiment._row.holder
    assert holder is not None
    status = read_status(QueueFiles.of(checked_place()))
    assert status is not None
    for pid in (status.pid, holder.process.pid):  # first the one that would start the other again
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(DeterminedError, match=f"no process is running experiment {experiment.id}; call activate"):
        experiment.wait(interval=0.1)
    assert experiment.run(interval=0.1) is ExperimentState.COMPLETED
    assert [len(list(trial.iter_metrics("validation"))) for trial in experiment.list_trials()] == [100, 100]


def test_what_cannot_run_is_refused_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="config must be the path of a file or a dict, got 3"):
        client.create_experiment(3)  # type: ignore[arg-type]
    wrong = {**config(0.1, 1), "searcher": {"name": "random", "metric": "loss", "max_trials": 0}, "nonsense": 1}
    with pytest.raises(InvalidExperimentConfig) as told:
        client.create_experiment(wrong, STEADY)
    assert {mistake.path for mistake in told.value.mistakes} == {"searcher.max_trials", "nonsense"}
    with pytest.raises(InvalidExperimentException, match=r"there is no train\.py"):
        client.create_experiment(config(0.1, 1))
    with pytest.raises(InvalidExperimentConfig, match=r"no-such\.yaml: No such file"):
        client.create_experiment(str(tmp_path / "no-such.yaml"), STEADY)
    assert client.list_experiments() == []
    experiments = home / "determined" / "experiments"
    assert not experiments.exists() or not list(experiments.iterdir())


def test_what_means_nothing_here_is_accepted(home: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    extra = tmp_path / "extra.txt"
    extra.write_text("x")
    experiment = client.create_experiment(config(0.01, 1), STEADY, [extra], project_id=3, template="mine", paused=True)
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == ["project_id", "template"]
    assert (Path(experiment._row.code_dir) / "extra.txt").read_text() == "x"
    experiment.kill()
    assert experiment.state is ExperimentState.CANCELED
    with pytest.raises(RuntimeError, match=f"experiment {experiment.id} is CANCELED and has no trial"):
        experiment.await_first_trial()


KEEPER = """
import time
from pathlib import Path
from determined import core

with core.init() as context:
    for step in range(1, 6):
        context.train.report_validation_metrics(step, {"loss": 1 / step})
        with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
            (path / "weights").write_text(str(step))
        while step == 1 and not Path("WAIT").exists():
            time.sleep(0.02)
"""


def test_a_checkpoint_that_is_registered_survives_until_it_is_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_dir = home / "model"
    model_dir.mkdir()
    (model_dir / "train.py").write_text(KEEPER.replace("WAIT", str(home / "go")))
    (home / "random.py").write_text("raise ImportError('a file of the user that is called like a module')")
    monkeypatch.chdir(home)
    storage = {"type": "directory", "container_path": str(home / "saved"), "save_trial_best": 1}
    single = {
        **config(0, 0),
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "loss"},
        "checkpoint_storage": {**storage, "save_experiment_best": 0, "save_trial_latest": 1},
    }
    experiment = client.create_experiment(single, model_dir)
    trial = experiment.await_first_trial()
    wait_until(lambda: trial.list_checkpoints())
    (first,) = trial.list_checkpoints()
    version = client.create_model("kept").register_version(first.uuid)
    (home / "go").touch()
    assert experiment.wait(interval=0.1) is ExperimentState.COMPLETED
    steps = {checkpoint.metadata["steps_completed"] for checkpoint in experiment.list_checkpoints()}
    assert steps == {1, 5}, "the registered one, and the best, which is the latest"
    assert Path(version.checkpoint.download(home / "here"), "weights").read_text() == "1"

    # Then the experiment is deleted with everything that belongs to it, and nothing else.
    other = client.create_experiment(single, model_dir, paused=True)
    with pytest.raises(CheckpointInUse, match="version 1 of model 'kept'"):
        experiment.delete()
    assert len(experiment.list_checkpoints()) == 2
    version.delete()
    experiment.delete()
    root = home / "determined"
    assert [found.id for found in client.list_experiments()] == [other.id]
    assert [path.name for path in (root / "experiments").iterdir()] == [other._row.key]
    assert list((root / "runs").iterdir()) == []
    assert [path for path in (home / "saved").iterdir() if not path.name.startswith(".")] == []
