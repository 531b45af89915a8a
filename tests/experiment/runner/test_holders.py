"""One process at a time runs an experiment; another one takes over when it has exited, never while it works (R18)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest

from tests.experiment.conftest import MakeSearch
from tests.helpers import warm
from tests.helpers.searches import DET, Search
from tests.helpers.waiting import PATIENCE_SECONDS, wait_for_end, wait_until

CONFIG: dict[str, Any] = {
    "name": "held",
    "entrypoint": "python3 train.py 0.1 100000",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
}


def wait_for_more_validations(search: Search, experiment: int, more: int = 4) -> None:
    """Wait until the trials have made a number of further reports."""

    def count(store: Any) -> int:
        return sum(len(store.metrics(trial.id)) for trial in store.experiments.trials(experiment))

    with search.opened() as store:
        before = count(store)
    search.wait_for(lambda store: count(store) >= before + more)


@pytest.mark.parametrize("many", [8, pytest.param(20, marks=pytest.mark.thorough)])
def test_many_start_and_one_works(make_search: MakeSearch, many: int) -> None:
    search = make_search("steady", CONFIG)
    experiment = search.create()
    command = [*DET, "experiment", "activate", str(experiment), "--slots", "2"]
    runners = [
        warm.Popen(command, env=search.env(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(many)
    ]
    refusals: dict[int, str] = {}
    while len(refusals) < many - 1:
        pid, words = next_refusal(runners, refusals)
        refusals[pid] = words
    (holder,) = [runner for runner in runners if runner.pid not in refusals]
    assert holder.poll() is None
    since = set()
    for words in refusals.values():
        found = re.search(r"run by process (\d+) on host (\S+) since (\S+ \S+ UTC)", words)
        assert found, words
        assert (int(found[1]), found[2]) == (holder.pid, os.uname().nodename)
        since.add(found[3])
    wait_for_more_validations(search, experiment)
    with search.opened() as store:
        row = store.experiments.get(experiment)
        assert row.holder is not None
        assert row.holder.process.pid == holder.pid
        assert since == {datetime.fromtimestamp(row.holder.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")}
        assert [trial.runs for trial in store.experiments.trials(experiment)] == [1, 1]
    # The next process notices its death at once.
    holder.kill()
    holder.communicate()
    search.wait_for_exits()
    successor = search.start(experiment)
    search.wait_for(lambda store: (held := store.experiments.get(experiment).holder) and held.process.pid != holder.pid)
    search.wait_for(lambda store: [trial.runs for trial in store.experiments.trials(experiment)] == [2, 2])
    successor.kill()
    successor.wait()
    search.wait_for_exits()


def next_refusal(runners: Sequence[subprocess.Popen[str]], known: dict[int, str]) -> tuple[int, str]:
    """Return the error of the next process that gives up."""

    def ended() -> list[subprocess.Popen[str]]:
        return [runner for runner in runners if runner.pid not in known and runner.poll() is not None]

    runner = wait_until(ended, f"only {len(known)} have given up")[0]
    assert runner.returncode == 1
    assert runner.stderr is not None
    with runner.stderr:
        return runner.pid, runner.stderr.read()


@pytest.mark.thorough
def test_a_stopped_holder_loses_its_experiment(make_search: MakeSearch) -> None:
    """This takes more than twenty seconds by design: a live holder may be silent for that long."""
    search = make_search("steady", CONFIG)
    experiment = search.create()
    old = search.start(experiment)
    wait_for_more_validations(search, experiment)
    old_processes = psutil.Process(old.pid).children(recursive=True)
    old_trials = [process for process in old_processes if process.pid in attempt_pids(search)]
    assert len(old_trials) == 2
    os.kill(old.pid, signal.SIGSTOP)
    new = search.start(experiment, "--share")  # the stopped process still has its slots reserved
    search.wait_for(lambda store: [trial.runs for trial in store.experiments.trials(experiment)] == [2, 2])
    search.wait_for(lambda store: [len(store.attempts(number)) for number in (1, 2)] == [2, 2])
    # They notice that another process has taken over.
    wait_for_end(*(process.pid for process in old_trials))
    os.kill(old.pid, signal.SIGCONT)
    assert old.wait(PATIENCE_SECONDS) == 1
    assert psutil.wait_procs(old_processes, timeout=PATIENCE_SECONDS)[1] == []
    assert "taken over" in search.said.read_text()
    wait_for_more_validations(search, experiment)
    assert new.poll() is None
    with search.opened() as store:
        row = store.experiments.get(experiment)
        assert row.state == "ACTIVE"
        assert row.holder is not None
        assert row.holder.process.pid == new.pid
        assert [(trial.state, trial.runs) for trial in store.experiments.trials(experiment)] == [("RUNNING", 2)] * 2
    assert len(attempt_pids(search)) == 4
    search.det("experiment", "kill", str(experiment))
    assert new.wait(15) == 1
    search.wait_for_exits()


def attempt_pids(search: Search) -> list[int]:
    with search.opened() as store:
        return [attempt.process.pid for number in (1, 2) for attempt in store.attempts(number)]
