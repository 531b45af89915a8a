"""Checkpoints whose verification takes long: meanwhile the runner goes on, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from determined.checkpoint_storage import retention
from determined.checkpoint_storage.base import CheckpointStorage
from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from tests.experiment.inside import create, opened, outcome
from tests.helpers.waiting import wait_until

# The first trial fails after it has saved, and succeeds when it resumes.
PROGRAM = """
import determined as det
from determined import core

info = det.get_cluster_info()
with core.init() as context:
    if info.latest_checkpoint is None and info.trial.trial_id == 1:
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
            (path / "data").write_text("1")
        raise SystemExit(3)
    context.train.report_validation_metrics(info.trial._steps_completed + 1, {"loss": 1.0})
"""


@dataclass
class SlowVerification:
    """While it is installed, the verification of a checkpoint does `meanwhile` first."""

    meanwhile: Callable[[], object] = lambda: None
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowVerification:
    made, verify = SlowVerification(), retention.verify

    def slowly(storage: CheckpointStorage, checkpoint: retention.Candidate) -> None:
        made.begun.append(checkpoint.checkpoint_id)
        made.meanwhile()
        verify(storage, checkpoint)
        made.ended.append(checkpoint.checkpoint_id)

    monkeypatch.setattr(retention, "verify", slowly)
    return made


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


@pytest.fixture
def experiment(engine: LocalEngine, tmp_path: Path) -> int:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    config = {
        "name": "slow",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 4, "max_concurrent_trials": 2},
        "max_restarts": 1,
    }
    return create(engine, tmp_path / "model", config)


def test_other_trials_start_and_end_meanwhile(engine: LocalEngine, experiment: int, slow: SlowVerification) -> None:
    def others_have_ended() -> bool:
        with opened() as store:
            return [trial.state for trial in store.experiments.trials(experiment)][1:] == ["COMPLETED"] * 3

    slow.meanwhile = lambda: wait_until(others_have_ended)
    run_experiment(checked_place(), experiment, engine=engine)
    assert len(slow.ended) == 1
    trials = outcome(experiment).trials
    assert [(trial.state, trial.runs) for trial in trials] == [("COMPLETED", 2), *[("COMPLETED", 1)] * 3]
    assert outcome(experiment).validations[0][0]["loss"] == 1.0


def test_an_experiment_is_paused_without_waiting_for_the_end(
    engine: LocalEngine, experiment: int, slow: SlowVerification
) -> None:
    has_paused = threading.Event()

    def pause_it() -> None:
        with opened() as store:
            store.experiments.request(experiment, "pause")  # as another process does
        assert has_paused.wait(120)

    slow.meanwhile = pause_it
    assert run_experiment(checked_place(), experiment, engine=engine).state == "PAUSED"
    assert (len(slow.begun), slow.ended) == (1, [])
    has_paused.set()
    wait_until(lambda: slow.ended)
    slow.meanwhile = lambda: None
    assert run_experiment(checked_place(), experiment, engine=engine).state == "COMPLETED"
    assert outcome(experiment).trials[0].runs == 2
