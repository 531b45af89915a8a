"""Trials that fail end in a documented state with a reason, and the search continues (R19, R20)."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from determined.store.experiment_records import Trial
from tests.experiment.conftest import MakeSearch
from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.helpers.warm_children import children_of

TROUBLES = {  # the end of a trial: its state, its reason, and how often it was started with one restart allowed
    "none": ("COMPLETED", "", 1),
    "raise": ("ERROR", r"RuntimeError: the second step failed \(train.py, line \d+\); tried 2 times", 2),
    "segfault": ("ERROR", r"ended by the signal SIGSEGV; tried 2 times", 2),
    "exit_3": ("ERROR", r"exit code 3; tried 2 times", 2),
    "exit_0": ("COMPLETED", "", 1),
    "hard_exit_0": ("COMPLETED", "", 1),
    "hang": ("ERROR", r"it hung: .* for 3 s \(hang_timeout\); its log has the stacks; tried 2 times", 2),
    "memory": ("ERROR", r"MemoryError \(train.py, line \d+\); tried 2 times", 2),
    "fork": ("COMPLETED", "", 1),
    "nan": ("COMPLETED", "", 1),
    "inf": ("COMPLETED", "", 1),
    "minus_inf": ("COMPLETED", "", 1),
    "invalid_hp": ("INVALID_HP", r"InvalidHP: no such learning rate", 1),
    "no_metric": ("COMPLETED", "", 1),
}


def config(searcher: dict[str, Any], troubles: list[str], **fields: Any) -> dict[str, Any]:
    return {
        "name": "troubles",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"trouble": {"type": "categorical", "vals": troubles}},
        "searcher": {"metric": "loss", **searcher},
        "max_restarts": 1,
        "hang_timeout": 3,
        "reproducibility": {"experiment_seed": 3},
        **fields,
    }


def trials_of(search: Search, experiment: int) -> list[Trial]:
    with search.opened() as store:
        return store.experiments.trials(experiment)


def starts_of(search: Search, trial: Trial) -> int:
    (directory,) = search.home.glob(f"determined/experiments/*/trials/{trial.id}")
    return len((directory / "starts.txt").read_text().split())


def test_each_trouble_has_its_end(make_search: MakeSearch) -> None:
    search = make_search("troubles", config({"name": "grid"}, list(TROUBLES)))
    experiment = search.create()
    search.activate(experiment)
    search.wait_for_exits()
    found = {}
    for trial in trials_of(search, experiment):
        found[trial.hparams["trouble"]] = trial
        state, reason, starts = TROUBLES[trial.hparams["trouble"]]
        shown = (trial.hparams["trouble"], trial.state, trial.reason)
        assert trial.state == state, shown
        assert re.fullmatch(reason, trial.reason or ""), shown
        assert (starts_of(search, trial), trial.runs, trial.restarts) == (starts, starts, starts - 1), shown
    assert found.keys() == TROUBLES.keys()
    with search.opened() as store:
        row = store.experiments.get(experiment)
        assert (row.state, row.best) == ("COMPLETED", 0.5)
        log = "\n".join(line.text for line in store.logs(found["hang"].id))
    assert "in make_trouble" in log  # where it hung
    described = search.det("experiment", "describe", str(experiment)).stdout
    assert "ended by the signal SIGSEGV" in described
    assert "InvalidHP: no such learning rate" in described


def test_troubles_from_outside(make_search: MakeSearch) -> None:
    """The engine is lost, one process is killed, another one ignores signals."""
    search = make_search(
        "troubles", config({"name": "grid"}, ["killed", "ignore", "none"], hang_timeout=0, preemption_timeout=1)
    )
    experiment = search.create()
    runner = search.start(experiment)
    killed, deaf = work_dir(search, 1), work_dir(search, 2)
    first = pid_in(killed)
    pid_in(deaf)
    (warm,) = children_of(runner.pid)
    warm.kill()
    second = pid_in(killed, not_=first)
    assert runner.poll() is None
    os.kill(second, signal.SIGKILL)
    third = pid_in(killed, not_=second)
    os.kill(third, signal.SIGKILL)
    with search.opened() as store:
        store.experiments.request(experiment, "cancel", trial_id=2)
    assert runner.wait(60) == 0, search.said.read_text()
    search.wait_for_exits()
    trials = trials_of(search, experiment)
    assert [(trial.state, trial.reason, trial.runs, trial.restarts) for trial in trials] == [
        ("ERROR", "ended by the signal SIGKILL; tried 2 times", 3, 1),  # the start that was lost does not count
        ("CANCELED", "it did not stop within 1 s of being asked to", 2, 0),
        ("COMPLETED", "", 1, 0),
    ]


def work_dir(search: Search, trial_id: int) -> Path:
    (directory,) = search.home.glob("determined/experiments/*")
    return directory / "trials" / str(trial_id)


def pid_in(directory: Path, *, not_: int = 0) -> int:
    """Return the id of the process that waits there before its failure; of a later one than `not_`."""
    file = directory / "pid.txt"
    wait_until(lambda: file.exists() and int(file.read_text()) != not_, f"no process has come to {directory}")
    return int(file.read_text())


ALL_KINDS = ["none", "nan", "inf", "minus_inf", "invalid_hp", "raise", "exit_0", "none"]
HALVING = {"time_metric": "batches", "max_time": 4, "divisor": 2}


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "random"},
        pytest.param({"name": "async_halving", "num_rungs": 2, **HALVING}, marks=pytest.mark.thorough),
        pytest.param(
            {"name": "async_halving", "num_rungs": 3, "stop_once": False, **HALVING}, marks=pytest.mark.thorough
        ),
        {"name": "adaptive_asha", "mode": "conservative", "smaller_is_better": False, **HALVING},
    ],
    ids=["random", "halving", "promotion", "adaptive"],
)
def test_no_trouble_wins_a_search(make_search: MakeSearch, searcher: dict[str, Any]) -> None:
    described = config(
        {**searcher, "max_trials": 12}, ALL_KINDS, max_restarts=0, reproducibility={"experiment_seed": 17}
    )
    described["hyperparameters"]["loss"] = {"type": "double", "minval": 1.0, "maxval": 2.0}
    search = make_search("troubles", described)
    experiment = search.create()
    search.activate(experiment)
    search.wait_for_exits()
    trials = trials_of(search, experiment)
    by_state = {state: [trial for trial in trials if trial.state == state] for state in {t.state for t in trials}}
    assert len(by_state["INVALID_HP"]) > 0, "the seed gives none of them: choose another"
    assert len(trials) - len(by_state["INVALID_HP"]) == 12  # each of those was replaced
    assert {trial.hparams["trouble"] for trial in by_state["INVALID_HP"]} == {"invalid_hp"}
    assert {trial.hparams["trouble"] for trial in by_state["ERROR"]} == {"raise"}
    honest = [t for t in trials if t.hparams["trouble"] not in ("nan", "inf", "minus_inf")]
    assert all(trial.best is None for trial in trials if trial not in honest)
    best = min if searcher.get("smaller_is_better", True) else max
    with search.opened() as store:
        row = store.experiments.get(experiment)
        assert row.state == "COMPLETED"
        # A trial that failed later has a value as well, and so has one that raised InvalidHP.
        assert row.best == best(trial.hparams["loss"] for trial in honest)
        for trial in trials:
            stored = [metric.metrics for metric in store.metrics(trial.id, "validation")]
            if trial.hparams["trouble"] in ("nan", "inf", "minus_inf"):
                odd = float(trial.hparams["trouble"].replace("minus_", "-"))
                assert all(repr(metrics["loss"]) == repr(odd) for metrics in stored)  # as it was reported


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("raise", "All 2 trials failed. See: det experiment list-trials 1"),
        ("invalid_hp", "6 trials raised InvalidHP, and 2 were asked for"),
        ("no_metric", "Metric 'loss' is not reported; reported: another"),
    ],
)
def test_a_search_without_a_result_is_an_error(make_search: MakeSearch, trouble: str, reason: str) -> None:
    searcher = {"name": "adaptive_asha", "max_trials": 2, **HALVING}
    search = make_search("troubles", config(searcher, [trouble], max_restarts=0))
    experiment = search.create()
    said = search.activate(experiment, expect=1)
    search.wait_for_exits()
    with search.opened() as store:
        row = store.experiments.get(experiment)
    assert row.state == "ERROR", said
    assert reason in (row.reason or "")
    assert reason in said
