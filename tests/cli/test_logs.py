"""Logs of all trials of a search, while it runs."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from determined import core
from determined.store.store import Store
from determined.store.substores.queue import NewEntry
from tests.cli.det_command import DET, Terminal, det, det_ok
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work
from tests.helpers.searches import Search
from tests.helpers.terminal import CTRL_C
from tests.helpers.waiting import wait_until

PROGRAM = """
import determined as det
from determined import core

with core.init() as context:
    print("begins with", det.get_cluster_info().trial.hparams["n"], flush=True)
    context.train.report_validation_metrics(1, {"loss": 1.0})
    print("has ended", flush=True)
"""

# `det` that says when it has found nothing to print for the first time.
WAITING_DET = """
import sys, time
from determined.cli.main import main

def announce(seconds):
    time.sleep = sleep
    print("waiting", file=sys.stderr, flush=True)
    sleep(seconds)

sleep, time.sleep = time.sleep, announce
main()
"""


def test_all_trials_of_a_search_that_runs(tmp_path: Path) -> None:
    """A follower from the beginning gets every line of every trial once, and ends with the search."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    config = {
        "entrypoint": "python3 train.py",
        "hyperparameters": {"n": {"type": "categorical", "vals": [1, 2, 3, 4]}},
        "searcher": {"name": "grid", "metric": "loss", "max_concurrent_trials": 1},
    }
    search = Search(tmp_path / "home", model, config, slots=1)
    experiment = search.create()
    runner = search.start(experiment)
    try:
        search.wait_for(lambda store: store.experiments.get(experiment).state == "ACTIVE")
        command = [*DET, "e", "logs", str(experiment), "--all", "-f", "--stdtype", "stdout"]
        done = subprocess.run(command, env=search.env(), capture_output=True, text=True, timeout=100)
    finally:
        assert runner.wait(timeout=100) == 0
    assert (done.returncode, done.stderr) == (0, "")
    seen = [re.sub(r"^\[.*?\] ", "", line) for line in done.stdout.splitlines()]
    with search.opened() as store:
        trials = {trial.id: trial.hparams["n"] for trial in store.experiments.trials(experiment)}
    assert len(trials) == 4
    assert sorted(seen) == sorted(
        f"[trial {trial}] [rank=0] {said}" for trial, n in trials.items() for said in (f"begins with {n}", "has ended")
    )


def test_what_waits_in_a_queue_is_followed_from_before_its_beginning(store: Store) -> None:
    experiment = new_experiment(store)
    store.queue.add(NewEntry(experiment, "another-machine", "somebody"))
    command = [sys.executable, "-c", WAITING_DET, "e", "logs", str(experiment), "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        lease = lead(store, experiment)
        (trial,) = add_trials(store, lease, [{}])
        work(store, lease, trial, Steps(lines=[(0, None, "at last")]))
        assert process.stdout.readline().endswith("at last\n")
        end(store, lease, "COMPLETED")
        assert process.wait(timeout=30) == 0


def test_a_log_without_lines_says_why(store: Store) -> None:
    """The reason is on standard error, with exit code 0: a script sees an empty log."""

    def said(*words: str) -> str:
        for form in ((), ("--json",)):
            result = det(*words, *form)
            assert (result.exit_code, result.stdout) == (0, "")
        (line,) = result.stderr.splitlines()
        return line

    paused = new_experiment(store, "paused", paused=True)
    waiting = new_experiment(store, "waiting")
    store.queue.add(NewEntry(waiting, "another-machine", "somebody"))
    running = new_experiment(store, "running")
    lease = lead(store, running)
    first, second, third = map(str, add_trials(store, lease, [{}, {}, {}]))
    for command in (["e", "logs", str(paused)], ["e", "logs", str(paused), "--all"]):
        assert said(*command) == (
            f"No trial of experiment {paused} has started yet (the experiment is PAUSED; resume with: "
            f"det experiment activate {paused})."
        )
    assert said("e", "logs", str(waiting)) == (
        f"No trial of experiment {waiting} has started yet (the experiment is in the queue; see: det queue)."
    )
    for command in (["t", "logs", first], ["e", "logs", str(running)]):
        assert said(*command) == f"Trial {first} has not started yet (the experiment is ACTIVE)."
    work(store, lease, int(first), Steps(lines=[(0, "INFO", "INFO: root: hello")]))
    assert said("t", "logs", first, "--level", "error") == "No line matches the given options."
    assert said("e", "logs", str(running), "--search", "nothing") == "No line matches the given options."
    work(store, lease, int(second), Steps())
    assert said("t", "logs", second) == f"Trial {second} has not printed anything yet. -f waits for output."
    end_trial(store, lease, int(second), "COMPLETED")
    assert said("t", "logs", second) == f"Trial {second} printed nothing."
    end_trial(store, lease, int(third), "CANCELED")
    assert said("t", "logs", third) == f"Trial {third} ended before it started (CANCELED)."
    end(store, lease, "COMPLETED")
    assert "hello" in det("t", "logs", first).stdout


def test_a_standalone_run_whose_output_is_not_stored_says_so(store: Store) -> None:
    with core.init(store_output=False) as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
    (row,) = store.experiments.list()
    (trial,) = store.experiments.trials(row.id)
    for command in (["t", "logs", str(trial.id)], ["e", "logs", str(row.id)]):
        result = det(*command)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == (
            f"No output of trial {trial.id} is stored: it printed nothing, or storing was disabled "
            "(store_output=False, DET_STORE_OUTPUT=0).\n"
        )


def test_the_filters_are_those_of_one_trial(search: int) -> None:
    def texts(*arguments: str) -> list[str]:
        return [line.rpartition(": ")[2] for line in det_ok("e", "logs", str(search), "--all", *arguments).splitlines()]

    assert texts("--search", "second") == ["second"]
    assert texts("--search", "root: ", "--tail", "2") == ["oops", "second"]
    nothing = det("e", "logs", str(search), "--all", "--stdtype", "stderr")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == "No line matches the given options.\n"
    assert det("e", "logs", str(search), "--source", "x").stderr.startswith("--source has no effect")


@pytest.mark.parametrize("zone", ["UTC", "IST-5:30"])
def test_a_time_without_a_zone_is_in_the_one_that_is_shown(
    search: int, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """The lines were written at 14:13:32.5 in UTC."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()

    def count(*arguments: str) -> int:
        return len(det("e", "logs", str(search), *arguments).stdout.splitlines())

    shown = det_ok("e", "logs", str(search)).partition("]")[0][1:]
    assert count("--timestamp-after", shown) == 3
    assert count("--timestamp-before", shown) == 0
    assert count("--timestamp-after", shown[:-5]) == 3
    assert count("--timestamp-before", shown[:-5]) == 0
    assert count("--timestamp-after", "2026-09-21T14:13:32", "--utc") == 3
    assert count("--timestamp-after", "2026-09-21T14:13:33", "--utc") == 0
    assert count("--timestamp-after", "2026-09-21T14:13:32.4Z", "--timestamp-before", "2026-09-21T14:13:32.6Z") == 3
    for wrong in ("yesterday", "9999-99-99", ""):
        refused = det("e", "logs", str(search), "--timestamp-after", wrong)
        assert refused.exit_code == 2
        assert "--timestamp-after takes a time like 2026-01-31T12:00:00Z" in refused.stderr


@pytest.mark.parametrize("command", [["e", "logs", "1", "-f"], ["e", "wait", "1", "--polling-interval", "0.1"]])
def test_ctrl_c_only_ends_the_watching(store: Store, command: list[str]) -> None:
    """On a terminal; the experiment, which another process runs, is not affected."""
    experiment = new_experiment(store, "watched")
    lease = lead(store, experiment)
    (trial_id,) = add_trials(store, lease, [{}])
    work(store, lease, trial_id, Steps(lines=[(0, None, "a line")]))
    with Terminal(*command, columns=80) as terminal:
        if "logs" in command:
            terminal.read_until(b"a line")
        else:
            _wait_until_it_sleeps(terminal.process.pid)
        terminal.write(CTRL_C)
        terminal.read_to_the_end()
        assert terminal.wait() == 130
    assert "Stopped watching; experiment 1 is not affected" in terminal.screen()
    assert store.experiments.get(experiment).state == "ACTIVE"
    assert store.experiments.requests(experiment) == []


def _wait_until_it_sleeps(pid: int) -> None:
    """Wait until the command has imported its modules and opened the store: before that, Ctrl-C only ends an
    interpreter.
    """
    wait_until(lambda: any("store.sqlite" in file.path for file in psutil.Process(pid).open_files()))
