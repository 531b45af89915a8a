"""Requests to a search that runs, by commands and by signals, and to one that no process runs."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
from typing import Any

import psutil
import pytest

from determined.experiment.runner.interrupts import Interrupts
from determined.store.store import Store
from tests.experiment.conftest import MakeSearch
from tests.helpers.searches import Search
from tests.helpers.waiting import PATIENCE_SECONDS

QUICK, SLOW = "python3 train.py 0.02 16", "python3 train.py 0.1 100000"
ADAPTIVE = {"name": "adaptive_asha", "max_trials": 8, "max_time": 16, "time_metric": "batches", "divisor": 2}


def config(searcher: dict[str, Any], entrypoint: str) -> dict[str, Any]:
    return {
        "name": "requests",
        "entrypoint": entrypoint,
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"metric": "loss", **searcher},
        "reproducibility": {"experiment_seed": 5},
    }


def validations(store: Store, experiment: int) -> int:
    return sum(len(store.experiments.validations(trial.id)) for trial in store.experiments.trials(experiment))


def start_and_wait(search: Search, experiment: int, count: int) -> subprocess.Popen[str]:
    """Start a runner, and wait for a number of further validations."""
    with search.opened() as store:
        before = validations(store, experiment)
    runner = search.start(experiment)
    search.wait_for(lambda store: validations(store, experiment) >= before + count)
    return runner


def state_of(search: Search, experiment: int) -> str:
    with search.opened() as store:
        return store.experiments.get(experiment).state


def states_of_trials(search: Search, experiment: int) -> set[str]:
    with search.opened() as store:
        return {trial.state for trial in store.experiments.trials(experiment)}


def checkpoints(search: Search, experiment: int) -> list[int]:
    with search.opened() as store:
        return [checkpoint.trial_id for checkpoint in store.experiments.checkpoints(experiment)]


@pytest.mark.thorough
def test_pauses_change_nothing(make_search: MakeSearch) -> None:
    steps = "python3 train.py 0.1 16"
    undisturbed = make_search("steady", config(ADAPTIVE, steps))
    undisturbed.activate(undisturbed.create())
    search = make_search("steady", config(ADAPTIVE, steps))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 6)
    assert "Pausing" in search.det("experiment", "pause", str(experiment)).stdout
    assert runner.wait(PATIENCE_SECONDS) == 1
    assert state_of(search, experiment) == "PAUSED"
    assert states_of_trials(search, experiment) <= {"PAUSED", "COMPLETED", "STOPPED_EARLY"}
    search.wait_for_exits()
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        runner = start_and_wait(search, experiment, 6)
        runner.send_signal(number)
        assert runner.wait(PATIENCE_SECONDS) == code
        assert state_of(search, experiment) == "PAUSED"
        search.wait_for_exits()
    search.activate(experiment)
    assert search.record(experiment) == undisturbed.record(1)
    with search.opened() as store:
        assert all(trial.restarts == 0 for trial in store.experiments.trials(experiment))


def test_cancelling_saves_and_ends(make_search: MakeSearch) -> None:
    search = make_search("steady", config({"name": "random", "max_trials": 4}, SLOW))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 6)
    search.det("experiment", "cancel", str(experiment))
    search.wait_for(lambda store: store.experiments.get(experiment).state != "ACTIVE")
    assert runner.wait(PATIENCE_SECONDS) == 1
    search.wait_for_exits()
    assert state_of(search, experiment) == "CANCELED"
    assert states_of_trials(search, experiment) == {"CANCELED"}
    assert sorted(checkpoints(search, experiment)) == [1, 2]
    for command in ("pause", "cancel", "kill", "activate"):
        refused = search.det("experiment", command, str(experiment), check=False)
        assert refused.returncode == 1
        assert "CANCELED" in refused.stderr
    refused = search.det("experiment", "activate", str(experiment), check=False)
    assert f"To run it again: det experiment fork {experiment}" in refused.stderr


def test_killing_ends_at_once(make_search: MakeSearch) -> None:
    search = make_search("steady", config({"name": "random", "max_trials": 2}, SLOW))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 4)
    with search.opened() as store:
        store.experiments.request(experiment, "kill", trial_id=1)
        search.wait_for(lambda store: store.experiments.trial(1).ended is not None)
        assert store.experiments.trial(1).state == "CANCELED"
        assert store.experiments.trial(2).state == "RUNNING"
    search.det("experiment", "kill", str(experiment))
    assert runner.wait(PATIENCE_SECONDS) == 1
    search.wait_for_exits()
    assert state_of(search, experiment) == "CANCELED"
    assert states_of_trials(search, experiment) == {"CANCELED"}
    assert checkpoints(search, experiment) == []


def test_the_second_interrupt_stops_without_saving(make_search: MakeSearch) -> None:
    """Only SIGINT counts. The experiment stays PAUSED, also for programs that ignore requests, and can be resumed."""
    deaf = "trap '' INT; echo begun; test -e done || sleep 600"
    search = make_search("steady", {**config({"name": "random", "max_trials": 2}, deaf), "hang_timeout": 0})
    experiment = search.create()
    runner = search.start(experiment)
    search.wait_for(lambda store: len(store.logs(1)) == len(store.logs(2)) == 1)
    runner.send_signal(signal.SIGINT)
    search.wait_for(lambda store: {t.state for t in store.experiments.trials(experiment)} == {"STOPPING"})
    for number in (signal.SIGTERM, signal.SIGHUP):
        runner.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        runner.wait(1)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(PATIENCE_SECONDS) == 130
    search.wait_for_exits()
    assert state_of(search, experiment) == "PAUSED"
    assert states_of_trials(search, experiment) == {"PAUSED"}
    said = search.said.read_text()
    assert "Pausing: saving 2 trials … (Ctrl-C again: stop without saving)" in said
    assert "Stopping without saving" in said
    assert said.splitlines()[-1].strip().startswith(f"det experiment activate {experiment}")


def test_the_third_interrupt_ends_a_runner_that_is_stuck() -> None:
    """The first two are announced and leave the program alone; SIGTERM and SIGHUP in between do not count."""
    announced: queue.SimpleQueue[tuple[str, signal.Signals]] = queue.SimpleQueue()
    interrupts = Interrupts(lambda request, number: announced.put((request, number)))
    with interrupts.listening():
        for request in ("pause", "halt"):
            os.kill(os.getpid(), signal.SIGINT)
            assert announced.get(timeout=30) == (request, signal.SIGINT)
            for number in (signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
            assert interrupts.request == request
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.signal == signal.SIGINT
    assert announced.empty()


def test_two_interrupts_lose_no_more_than_a_kill(make_search: MakeSearch) -> None:
    """Trials keep their last checkpoints, none is canceled, and the search ends like an uninterrupted one."""
    undisturbed = make_search("steady", config(ADAPTIVE, QUICK))
    undisturbed.activate(undisturbed.create())
    search = make_search("steady", config(ADAPTIVE, "python3 train.py 0.1 16"))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 6)
    runner.send_signal(signal.SIGINT)
    runner.send_signal(signal.SIGTERM)
    search.wait_for(lambda store: "STOPPING" in {t.state for t in store.experiments.trials(experiment)})
    runner.send_signal(signal.SIGINT)
    assert runner.wait(PATIENCE_SECONDS) == 130
    search.wait_for_exits()
    assert state_of(search, experiment) == "PAUSED"
    assert states_of_trials(search, experiment) <= {"PAUSED", "COMPLETED", "STOPPED_EARLY"}
    search.activate(experiment)
    assert search.record(experiment) == undisturbed.record(1)


def test_requests_without_a_runner(make_search: MakeSearch) -> None:
    search = make_search("steady", config({"name": "random", "max_trials": 2}, SLOW))
    untouched = search.create()
    assert "already paused" in search.det("experiment", "pause", str(untouched)).stdout
    assert "it is now canceled" in search.det("experiment", "cancel", str(untouched)).stdout
    assert state_of(search, untouched) == "CANCELED"
    orphaned = search.create()
    runner = start_and_wait(search, orphaned, 2)
    runner.kill()
    runner.wait()
    search.wait_for_exits()
    assert state_of(search, orphaned) == "ACTIVE"
    assert "it is now paused" in search.det("experiment", "pause", str(orphaned)).stdout
    assert states_of_trials(search, orphaned) == {"PAUSED"}
    assert "it is now canceled" in search.det("experiment", "kill", str(orphaned)).stdout
    assert states_of_trials(search, orphaned) == {"CANCELED"}
    assert search.det("experiment", "pause", "77", check=False).returncode == 1


def test_a_search_is_extended(make_search: MakeSearch) -> None:
    """It is extended after its end and in the middle: the trials are those of a search that was planned so."""
    longer = make_search("steady", config({"name": "random", "max_trials": 5}, QUICK))
    longer.activate(longer.create())
    search = make_search("steady", config({"name": "random", "max_trials": 2}, QUICK))
    experiment = search.create()
    search.activate(experiment)
    assert len(search.record(experiment)["trials"]) == 2
    refused = search.det("experiment", "activate", str(experiment), "--max-trials", "1", check=False)
    assert refused.returncode == 1
    assert "max_trials" in refused.stderr
    assert state_of(search, experiment) == "COMPLETED"
    runner = search.start(experiment, "--max-trials", "4")
    search.wait_for(lambda store: len(store.experiments.trials(experiment)) == 4)
    runner.send_signal(signal.SIGINT)
    if runner.wait(20) != 0:
        assert state_of(search, experiment) == "PAUSED"
    search.det("experiment", "activate", str(experiment), "--max-trials", "5", "--slots", "2")
    extended, planned = search.record(experiment), longer.record(1)
    assert extended == planned


@pytest.mark.thorough
def test_a_cancelled_search_is_extended(make_search: MakeSearch) -> None:
    """It continues without the canceled trials; requests from before that no process handled are outdated."""
    search = make_search("steady", config({"name": "random", "max_trials": 2}, "python3 train.py 0.1 25"))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 2)
    with search.opened() as store:
        store.experiments.request(experiment, "cancel")
        assert runner.wait(15) == 1
        store.experiments.request(experiment, "pause")
    search.det("experiment", "activate", str(experiment), "--max-trials", "3", "--slots", "2")
    with search.opened() as store:
        assert store.experiments.get(experiment).state == "COMPLETED"
        states = [(trial.state, trial.runs) for trial in store.experiments.trials(experiment)]
    assert states == [("CANCELED", 1), ("CANCELED", 1), ("COMPLETED", 1)]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough)])
def test_sigterm_to_all_processes_pauses(make_search: MakeSearch, number: signal.Signals) -> None:
    """As when the machine is shut down: the experiment is paused, and no trial counts as failed."""
    search = make_search("steady", config({"name": "random", "max_trials": 4}, "python3 train.py 0.1 20"))
    experiment = search.create()
    runner = start_and_wait(search, experiment, 6)
    for process in reversed(search.processes()):  # the trials first
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    assert runner.wait(15) == 128 + number
    search.wait_for_exits()
    assert state_of(search, experiment) == "PAUSED"
    search.activate(experiment)
    with search.opened() as store:
        trials = store.experiments.trials(experiment)
    assert [(trial.state, trial.restarts) for trial in trials] == [("COMPLETED", 0)] * 4
