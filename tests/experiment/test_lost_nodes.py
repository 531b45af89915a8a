"""Trials whose nodes are lost, or cannot start them: who is to blame, and how often it is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.experiment.inside import Outcome, run
from tests.experiment.nodes import Nodes

# Brings down its node at each of the first starts, with or without a new checkpoint.
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
    if how == "saves":
        with context.checkpoint.store_path({"steps_completed": step + 1}) as (path, _):
            (path / "step").write_text(str(step + 1))
    if how in ("saves", "does not save") and step < 13:
        os.kill(os.getpid(), signal.SIGKILL)
    context.train.report_validation_metrics(step + 1, {"loss": 1.0})
"""


def searched(tmp_path: Path, how: str, nodes: list[str], full: tuple[str, ...] = ()) -> Outcome:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    config: dict[str, Any] = {
        "name": "lost",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"how": how},
        "searcher": {"name": "single", "metric": "loss"},
        "max_restarts": 0,
    }
    with Nodes(model, nodes, full) as engine:
        return run(engine, model, config)


def test_a_trial_that_brings_down_its_nodes_ends(tmp_path: Path) -> None:
    (trial,) = searched(tmp_path, "does not save", ["first", "first", "second"]).trials
    assert (trial.state, trial.runs, trial.restarts) == ("ERROR", 11, 0), trial.reason
    assert trial.reason == (
        "lost with its nodes 11 times without a new checkpoint in between (first, second); "
        "the last one: second (its actor died)"
    )


def test_a_trial_that_progresses_may_lose_any_number_of_nodes(tmp_path: Path) -> None:
    (trial,) = searched(tmp_path, "saves", ["first"]).trials
    assert (trial.state, trial.runs, trial.restarts) == ("COMPLETED", 14, 0), trial.reason


def test_a_trial_is_not_to_blame_for_nodes_that_cannot_start_it(tmp_path: Path) -> None:
    bad = [name for name in ("a", "b", "c", "d") for _ in range(3)]  # then a node is not used any more
    outcome = searched(tmp_path, "reports", [*bad, "good"], full=("a", "b", "c", "d"))
    (trial,) = outcome.trials
    assert (trial.state, trial.runs, trial.restarts) == ("COMPLETED", 13, 0), trial.reason
    assert outcome.logs[0].count("the job could not be started: no space left on device") == 12


def test_a_trial_that_no_node_can_start_ends(tmp_path: Path) -> None:
    (trial,) = searched(tmp_path, "reports", ["a"], full=("a",)).trials
    assert (trial.state, trial.runs, trial.restarts) == ("ERROR", 11, 0), trial.reason
    assert trial.reason == "its processes could not be started on a, see its log; tried 11 times"
