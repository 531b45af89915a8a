"""Trials whose nodes are lost, or cannot start them: what counts as a failure, and how often it is retried."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from determined.engines.base import Event, Exited
from determined.experiment.runner.run import run_experiment
from determined.experiment.runner.view import View
from determined.store.open import checked_place
from tests.experiment.inside import Outcome, create, opened, run
from tests.experiment.nodes import Nodes

# Fails with its node until it has saved often enough.
PROGRAM = """
import os, signal
import determined as det
from determined import core

info = det.get_cluster_info()
how = info.trial.hparams["how"]
with core.init() as context:
    step = 0
    if info.latest_checkpoint is not None:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            step = int((path / "step").read_text())
    if how == "watched":
        with open("seen", "rb", buffering=0) as pipe:
            pipe.read(1)
    if how in ("saves", "once"):
        with context.checkpoint.store_path({"steps_completed": step + 1}) as (path, _):
            (path / "step").write_text(str(step + 1))
    if step < {"saves": 13, "does not save": 13, "once": 1}.get(how, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    context.train.report_validation_metrics(step + 1, {"loss": 1.0})
"""


CONFIG: dict[str, Any] = {
    "name": "lost",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "max_restarts": 0,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "train.py").write_text(PROGRAM)
    return made


def searched(model: Path, how: str, nodes: list[str], full: tuple[str, ...] = ()) -> Outcome:
    with Nodes(model, nodes, full) as engine:
        return run(engine, model, {**CONFIG, "hyperparameters": {"how": how}})


def test_a_trial_that_brings_down_its_nodes_ends(model: Path) -> None:
    (trial,) = searched(model, "does not save", ["first", "first", "second"]).trials
    assert (trial.state, trial.runs, trial.restarts) == ("ERROR", 11, 0), trial.reason
    assert trial.reason == (
        "lost with its nodes 11 times without a new checkpoint in between (first, second); "
        "the last one: second (its actor died)"
    )


def test_a_trial_that_progresses_may_lose_any_number_of_nodes(model: Path) -> None:
    (trial,) = searched(model, "saves", ["first"]).trials
    assert (trial.state, trial.runs, trial.restarts) == ("COMPLETED", 14, 0), trial.reason


def test_a_trial_is_not_to_blame_for_nodes_that_cannot_start_it(model: Path) -> None:
    bad = [name for name in ("a", "b", "c", "d") for _ in range(3)]  # after these the node is not used any more
    outcome = searched(model, "reports", [*bad, "good"], full=("a", "b", "c", "d"))
    (trial,) = outcome.trials
    assert (trial.state, trial.runs, trial.restarts) == ("COMPLETED", 13, 0), trial.reason
    assert outcome.logs[0].count("the job could not be started on a: no space left on device") == 3


def test_a_trial_that_no_node_can_start_ends(model: Path) -> None:
    (trial,) = searched(model, "reports", ["a"], full=("a",)).trials
    assert (trial.state, trial.runs, trial.restarts) == ("ERROR", 11, 0), trial.reason
    assert trial.reason == "its processes could not be started on a, see its log; tried 11 times"


def test_a_view_says_where_a_trial_runs(model: Path) -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    def observe(view: View) -> None:
        seen.extend((trial.state, trial.nodes) for trial in view.trials)
        if seen[-1][0] == "RUNNING":
            os.write(pipe, b"!")

    with Nodes(model, ["first"]) as engine:
        experiment = create(engine, model, {**CONFIG, "hyperparameters": {"how": "watched"}})
        os.mkfifo(model / "seen")
        pipe = os.open(model / "seen", os.O_RDWR)
        run_experiment(checked_place(), experiment, engine=engine, observer=observe)
        os.close(pipe)
    assert {nodes for state, nodes in seen if state == "RUNNING"} == {("first",)}
    assert seen[-1] == ("COMPLETED", ())


class Busy(Nodes):
    """Other programs use all slots of the cluster until the experiment says that it waits for them."""

    has_said: Callable[[], bool]

    @property
    def reason_to_wait(self) -> str:
        return "" if self.has_said() else "others use them"

    def free_slots(self) -> int:
        return super().free_slots() if self.has_said() else 0


def test_an_experiment_says_what_it_waits_for(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "determined")
    engine = Busy(model, ["only"])
    engine.has_said = lambda: bool(caplog.messages)
    with engine:
        outcome = run(engine, model, {**CONFIG, "hyperparameters": {"how": "reports"}})
    assert caplog.messages == ["waiting for 1 slot for each of 1 trial: others use them"]
    assert [trial.state for trial in outcome.trials] == ["COMPLETED"]


class Leaving(Nodes):
    """The only node leaves with the first job, and joins again after a few rounds of the runner."""

    rounds_without = 0
    reasons: list[str | None]

    def reason_not_to_fit(self, slots: int) -> str | None:
        return (
            f"a trial wants 1 CPU slot, the Ray cluster has 0 ({self.rounds_without} left)" if self._is_away else None
        )

    def free_slots(self) -> int:
        return 0 if self._is_away else super().free_slots()

    def events(self, timeout: float) -> list[Event]:
        if self._is_away:
            self.rounds_without -= 1
            with opened() as store:
                self.reasons = [*self.reasons, store.experiments.get(1).reason]
            return []
        found = super().events(timeout)
        if any(isinstance(event, Exited) and event.lost_node for event in found):
            self.rounds_without, self.reasons = 3, []
        return found

    @property
    def _is_away(self) -> bool:
        return self.rounds_without > 0


def test_an_experiment_that_waits_for_nodes_says_so(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "determined")
    engine = Leaving(model, ["only"])
    with engine:
        outcome = run(engine, model, {**CONFIG, "hyperparameters": {"how": "once"}})
    text = "a trial wants 1 CPU slot, the Ray cluster has 0 (%d left); waiting for nodes to join"
    assert engine.reasons == [text % 3, text % 2, text % 1]
    assert [record.getMessage() for record in caplog.records if "waiting for nodes" in record.getMessage()] == [
        text % 3
    ]
    assert [trial.state for trial in outcome.trials] == ["COMPLETED"]
    assert (outcome.experiment.state, outcome.experiment.reason or "") == ("COMPLETED", "")
