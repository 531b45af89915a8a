"""The SDK in one program, a search in others: reading, downloading, registering and controlling while it runs."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.errors import CheckpointInUse, CheckpointStateException, StoreError
from determined.experimental import Determined, Experiment, ModelVersion
from determined.experimental.client import CheckpointSortBy, ExperimentState, OrderBy, TrialSortBy, TrialState
from tests.helpers.searches import Search, end_processes
from tests.helpers.waiting import wait_until

Runner = subprocess.Popen[str]

# Two trials that save often, keep few checkpoints, and end when a file says so.
PROGRAM = """
import json, os, time
from pathlib import Path
import determined as det
from determined import core

info = det.get_cluster_info()
with core.init() as context:
    step = info.trial._steps_completed
    while True:
        step += 1
        time.sleep(0.02)
        loss = 1 / step + info.trial.hparams["lr"]
        context.train.report_training_metrics(step, {"loss": loss})
        context.train.report_validation_metrics(step, {"loss": loss})
        print("at step", step, flush=True)
        over = Path(os.environ["END"]).exists() or context.preempt.should_preempt()
        if step % 3 == 0 or over:
            with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                (path / "weights.json").write_text(json.dumps(step))
        if over:
            break
print("bye")
"""


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    config = {
        "name": "goes on",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 2},
        "checkpoint_storage": {
            "type": "directory",
            "container_path": str(tmp_path / "saved"),
            "save_trial_best": 1,
            "save_trial_latest": 1,
            "save_experiment_best": 0,
        },
        "max_restarts": 0,
    }
    search = Search(tmp_path / "home", model, config, environment={"END": str(tmp_path / "end")})
    monkeypatch.setenv("XDG_DATA_HOME", str(search.home))
    yield search
    end_processes(search.home)


class Follower(threading.Thread):
    """Reads the log of a trial to its end."""

    def __init__(self, trial_id: int) -> None:
        super().__init__(daemon=True)
        self._trial_id = trial_id
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        with Determined() as determined:
            self.lines.extend(determined.get_trial(self._trial_id).iter_logs(follow=True))


def rows_grow_and_are_complete(determined: Determined, experiment: Experiment) -> None:
    trial = experiment.list_trials()[0]
    seen = 0
    for _ in range(30):
        steps = [row.steps_completed for row in trial.iter_metrics("validation")]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= seen
        seen = len(steps)
        (found,) = determined.list_experiments(states=[ExperimentState.ACTIVE], name="GOES")
        assert found.id == experiment.id
        best = experiment.best_trial()
        assert best is not None
        assert {best.id} <= {one.id for one in experiment.list_trials(TrialSortBy.BEST_VALIDATION_METRIC)}
        summary = trial.summary_metrics["validation"]["loss"]
        assert summary["min"] == summary["last"]
    assert seen > 2


def the_best_one_is_downloaded_or_refused(experiment: Experiment, directory: Path) -> None:
    fetched: list[str] = []
    refused: list[str] = []
    for number in range(40):
        checkpoint = experiment.list_checkpoints(max_results=1)[0]
        try:
            path = Path(checkpoint.download(directory / str(number)))
        except CheckpointStateException as error:
            refused.append(str(error))
            continue
        assert json.loads((path / "weights.json").read_text()) == checkpoint.metadata["steps_completed"]
        fetched.append(path.name)
    assert all("cannot be downloaded: it is DELETED" in reason for reason in refused)
    assert fetched
    assert {path.name for path in directory.iterdir()} == set(fetched), "nothing is left half done"


def versions_of_what_is_about_to_go(determined: Determined, experiment: Experiment) -> list[ModelVersion]:
    model = determined.create_model("kept")
    versions: list[ModelVersion] = []
    refused: list[str] = []
    while len(versions) < 3:
        for oldest in experiment.list_checkpoints(CheckpointSortBy.END_TIME, OrderBy.ASC)[:2]:
            try:
                versions.append(model.register_version(oldest.uuid))
            except StoreError as error:
                refused.append(str(error))
    assert all("is DELETED" in reason for reason in refused)
    return versions


def paused_and_sent_on(search: Search, runner: Runner, experiment: Experiment) -> Runner:
    experiment.pause()
    runner.wait(60)
    experiment.reload()
    assert experiment.state is ExperimentState.PAUSED
    with pytest.raises(ValueError, match="is paused"):
        experiment.wait()
    by_steps = experiment.list_checkpoints(CheckpointSortBy.BATCH_NUMBER, OrderBy.ASC)
    saved = {one.training.trial_id: one.metadata["steps_completed"] for one in by_steps}
    paused = experiment.list_trials()
    assert {one.state for one in paused} == {TrialState.PAUSED}
    assert saved == {one.id: one.steps_completed for one in paused}
    runner = search.start(experiment.id)
    wait_until(lambda: all(one.steps_completed > saved[one.id] for one in experiment.list_trials()))
    return runner


@pytest.mark.parametrize("paused_between", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_program_beside_a_search(search: Search, tmp_path: Path, paused_between: bool) -> None:
    experiment_id = search.create()
    runner = search.start(experiment_id)
    with Determined() as determined:
        experiment = determined.get_experiment(experiment_id)
        trial = experiment.await_first_trial()
        follower = Follower(trial.id)
        wait_until(lambda: len({one.training.trial_id for one in experiment.list_checkpoints()}) == 2)
        rows_grow_and_are_complete(determined, experiment)
        the_best_one_is_downloaded_or_refused(experiment, tmp_path / "fetched")
        versions = versions_of_what_is_about_to_go(determined, experiment)

        if paused_between:
            runner = paused_and_sent_on(search, runner, experiment)
            assert follower.is_alive(), "a trial that is paused has not ended"

        (tmp_path / "end").touch()
        assert experiment.wait(interval=0.05) is ExperimentState.COMPLETED
        assert runner.wait(60) == 0
        follower.join(60)

        steps = [int(line.partition("at step ")[2]) for line in follower.lines if "at step " in line]
        assert steps == list(range(1, len(steps) + 1)), "every line once, and in order"
        assert follower.lines[-1].endswith("bye")
        for version in versions:
            assert (tmp_path / "saved" / version.checkpoint.uuid / "weights.json").exists()
        left = {path.name for path in (tmp_path / "saved").iterdir() if not path.name.startswith(".")}
        assert left == {one.uuid for one in experiment.list_checkpoints()}
        assert len(left - {version.checkpoint.uuid for version in versions}) <= 4, "two of each trial"
        with pytest.raises(CheckpointInUse, match="of model 'kept'"):
            experiment.delete()
