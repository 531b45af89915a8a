"""Scripts that pass their own hyperparameters inside a search: recorded, warned of, and stopped if the search is
pointless.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.cli.running.run_or_queue import run_here
from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.store.databases.sqlite import SqliteDatabase
from determined.store.open import checked_place
from tests.experiment.inside import Outcome, create, outcome, run

LR = {"type": "double", "minval": 0.1, "maxval": 1.0}
DEPTH = {"type": "int", "minval": 4, "maxval": 4000}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(how: str, trials: int = 5, slots: int = 1, **space: Any) -> dict[str, Any]:
    return {
        "name": "passing",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": LR, "net": {"depth": DEPTH}, "how": how, "name": "given", **space},
        "searcher": {"name": "random", "metric": "loss", "max_trials": trials},
        "resources": {"max_slots": slots},
        "reproducibility": {"experiment_seed": 5},
        "max_restarts": 0,
    }


class Reading(threading.Thread):
    """Reads a terminal until it is closed: its buffer is small."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._read = b""
        self.start()

    def run(self) -> None:
        with os.fdopen(self._descriptor, "rb", buffering=0) as file, contextlib.suppress(OSError):
            while piece := file.read(65536):
                self._read += piece

    def result(self) -> str:
        self.join(30)
        return self._read.decode()


def begun(found: Outcome) -> list[int]:
    return [trial.number for trial in found.trials if trial.passed_hparams is not None]


def test_a_fixed_point_stops_the_search_and_keeps_its_results(engine: LocalEngine) -> None:
    found = run(engine, "passing", config("fixed"))
    assert found.experiment.state == "ERROR"
    assert begun(found) == [0, 1, 2]
    assert [trial.state for trial in found.trials[:2]] == ["COMPLETED"] * 2
    assert {trial.state for trial in found.trials[3:]} == {"CANCELED"}
    assert [trial.best for trial in found.trials[:2]] == [0.5, 0.5]
    for trial in found.trials[:3]:
        assert trial.passed_hparams == {"lr": 0.5, "net": {"depth": 3}, "name": "mine"}
        assert trial.effective_hparams == {"lr": 0.5, "net": {"depth": 3}, "name": "mine", "how": "fixed"}
        assert trial.hparams["lr"] != 0.5
    reason = found.experiment.reason or ""
    assigned = ", ".join(str(trial.hparams["lr"]) for trial in found.trials[:3])
    assert f"lr = 0.5 (assigned: {assigned})" in reason
    assert re.search(r"net\.depth = 3 \(assigned: \d+, \d+, \d+\)", reason)
    assert "pytorch.init()" in reason


def test_a_killed_runner_comes_to_the_same_verdict(engine: LocalEngine) -> None:
    """The runner is killed after the third trial began, before anything was decided: the rows are as they were then."""
    found = run(engine, "passing", config("fixed"))
    path = checked_place()
    database = SqliteDatabase(Path(path))
    try:
        with database.transaction():
            database.execute("UPDATE experiments SET state = 'ACTIVE', reason = NULL, ended = NULL")
            database.execute("UPDATE trials SET state = 'QUEUED', ended = NULL WHERE number > 2")
            database.execute("UPDATE trials SET state = 'RUNNING', ended = NULL WHERE number = 2")
    finally:
        database.close()
    run_experiment(path, found.experiment.id, engine=engine)
    again = outcome(found.experiment.id)
    assert (again.experiment.state, again.experiment.reason) == ("ERROR", found.experiment.reason)
    assert [trial.runs for trial in again.trials] == [trial.runs for trial in found.trials]
    assert [trial.state for trial in again.trials[:2]] == ["COMPLETED"] * 2


@pytest.mark.parametrize("how", ["scaled", "same", "none", "unrelated"])
def test_a_search_that_has_an_effect_completes(engine: LocalEngine, how: str, caplog: pytest.LogCaptureFixture) -> None:
    found = run(engine, "passing", config(how, trials=4, slots=2))
    assert found.experiment.state == "COMPLETED", found.experiment.reason
    factor = 2 if how == "scaled" else 1
    for trial in found.trials:
        assert trial.effective_hparams["lr"] == pytest.approx(factor * trial.hparams["lr"])
        assert (trial.passed_hparams == {}) == (how == "none")
    warned = [record for record in caplog.records if "passed to init()" in record.getMessage()]
    assert len(warned) == (4 if how == "scaled" else 0)


def test_only_some_of_the_searched_names_are_passed(engine: LocalEngine) -> None:
    found = run(engine, "passing", config("some"))
    assert (found.experiment.state, begun(found)) == ("ERROR", [0, 1, 2])
    assert "lr = 0.5" in (found.experiment.reason or "")
    assert "depth" not in (found.experiment.reason or "").partition("The program")[0]
    assert found.trials[0].effective_hparams["net"] == found.trials[0].hparams["net"]


def test_passed_values_that_are_not_searched_do_not_stop_the_search(engine: LocalEngine) -> None:
    found = run(engine, "passing", config("fixed", trials=4, lr=0.25, net={"depth": 9}, other=LR))
    assert found.experiment.state == "COMPLETED"
    assert {trial.effective_hparams["lr"] for trial in found.trials} == {0.5}


@pytest.fixture
def own_engine() -> Iterator[LocalEngine]:
    """Return an engine whose slots `run_here` reserves in the state directory of the test."""
    with LocalEngine(2) as made:
        yield made


@pytest.mark.parametrize("terminal", [False, True])
def test_the_console_shows_both_values(
    own_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], terminal: bool
) -> None:
    experiment_id = create(own_engine, "passing", config("scaled", trials=7))
    if terminal:
        master, slave = os.openpty()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "1000")
        with os.fdopen(slave, "w") as screen, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", screen)
            reading = Reading(master)
            run_here(experiment_id, new=True, follow=False, form="table", engine=own_engine)
        text = reading.result()
    else:
        assert run_here(experiment_id, new=True, follow=False, form="table", engine=own_engine) == 0
        text = capfd.readouterr().out
    trials = outcome(experiment_id).trials
    for trial in trials[:5]:
        assigned = trial.hparams["lr"]
        expected = f"WARNING: trial {trial.id} trains with hyperparameters that its program passed to init()"
        assert expected in text
        assert f"lr = {2 * assigned} (assigned: {assigned})" in text
    assert f"WARNING: trial {trials[5].id} " not in text
    assert text.count("more trials train with values that were not assigned") == 1
    best = min(trials, key=lambda trial: trial.hparams["lr"])
    assert f"(assigned: {best.hparams['lr']})" in text.partition("Best trial")[2]
