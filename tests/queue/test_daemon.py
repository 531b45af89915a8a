"""The daemon: when it exits, what it gives up, and that no experiment is lost between its exit and the next start."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from determined.engines.slots import find_slots
from determined.queue import dispatcher, restart_backoff
from determined.queue.daemon import Daemon
from determined.queue.daemon_log import DaemonLog
from determined.queue.files import QueueFiles, daemon_start_lock, take_daemon_lock
from determined.queue.status import daemon_is_running, read_status
from tests.helpers.postgres import running_server
from tests.helpers.searches import DET
from tests.queue.conftest import SEARCH, QueuedSearch


def serve(searches: QueuedSearch, said: list[str] | None = None) -> list[str]:
    """Serve in this process until there is nothing to do; return the log of the daemon."""
    place = str(searches.home / "determined" / "store.sqlite")
    files, said = QueueFiles.of(place), [] if said is None else said
    with daemon_start_lock(files):
        lock = take_daemon_lock(files)
    assert lock is not None
    slots = find_slots(None, os.environ)
    assert Daemon(place, files, lock, slots=slots, idle_seconds=0, say=said.append).run() == 0
    assert not daemon_is_running(files)
    return said


def test_a_runner_that_fails_again_and_again_is_given_up(here: QueuedSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_backoff, "PAUSES", (0.1,))
    experiment = here.create()
    (config,) = here.home.glob("determined/experiments/*/config.json")
    config.write_text("{}")
    here.put_into_queue(experiment)
    said = serve(here)
    assert sum("starting it again in" in line for line in said) == 1
    with here.opened() as store:
        row = store.experiments.get(experiment)
        assert store.queue.find(experiment) is None
    assert row.state == "PAUSED"
    assert (row.reason or "").startswith("the runner ended 2 times in a row, the last time with code 1: ")
    waited = here.det("experiment", "wait", str(experiment), check=False)
    assert "it is paused (the runner ended 2 times in a row" in waited.stderr


def test_a_trial_that_needs_more_slots_than_there_are_does_not_block_the_others(here: QueuedSearch) -> None:
    here.config = {**SEARCH, "resources": {"slots_per_trial": 3}}
    experiment = here.create("--slots", "3")
    here.put_into_queue(experiment)
    assert any("a trial needs 3 slots, but the queue has 2" in line for line in serve(here))
    assert here.state(experiment) == "PAUSED"


def test_what_is_added_while_the_daemon_ends_is_served_nevertheless(here: QueuedSearch) -> None:
    """A daemon exits as soon as it can, and an experiment is added at that very moment."""
    here.config = {**SEARCH, "resources": {"slots_per_trial": 3}}  # given up at once, which costs no time
    experiment = here.create("--slots", "3")
    for _ in range(2):
        ending = subprocess.Popen([*DET, "queue", "serve", "--idle", "0"], env=here.env(), stdout=subprocess.DEVNULL)
        here.det("experiment", "activate", str(experiment), "--detach")
        here.wait_for(lambda store: store.queue.find(experiment) is None)
        ending.wait(30)
        assert here.state(experiment) == "PAUSED"
        here.kill(here.daemons())


def test_a_daemon_that_is_asked_to_end_leaves_the_queue_as_it_is(here: QueuedSearch) -> None:
    with subprocess.Popen([*DET, "queue", "serve"], env=here.env(), stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert "serves the queue with 2 slots" in daemon.stdout.readline()
        daemon.terminate()
        assert daemon.wait(60) == 143
    assert not daemon_is_running(QueueFiles.of(str(here.home / "determined" / "store.sqlite")))


@pytest.mark.thorough
def test_a_daemon_that_is_asked_to_end_lets_trials_save(here: QueuedSearch) -> None:
    here.slow_down(1)
    with subprocess.Popen([*DET, "queue", "serve"], env=here.env(), stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert "serves the queue with 2 slots" in daemon.stdout.readline()
        experiment = here.detach(searcher={"name": "single", "metric": "loss"})
        here.wait_for(lambda store: any(here.steps(experiment)))
        status = read_status(QueueFiles.of(str(here.home / "determined" / "store.sqlite")))
        assert status is not None
        assert (status.pid, status.running) == (daemon.pid, {experiment: [0]})
        daemon.terminate()
        assert daemon.wait(60) == 143
    here.wait_for_exits()
    (row,) = here.queue()
    assert (row["state"], row["slots"]) == ("ACTIVE", [])
    with here.opened() as store:
        (trial,) = store.experiments.trials(experiment)
        assert [row.steps_completed for row in store.checkpoints(trial.id)] == [trial.steps_completed]
        assert store.experiments.get(experiment).state == "ACTIVE"


@pytest.mark.thorough
def test_an_experiment_that_waits_for_long_has_no_process(here: QueuedSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_MOST_SECONDS_WITHOUT_SLOTS", 1.0)
    low, high = here.create(), here.create()
    here.slow_down(low)
    here.slow_down(high)
    here.put_into_queue(low)

    def disturb() -> None:
        here.wait_for(lambda store: any(here.steps(low)))
        here.put_into_queue(high, priority=1)
        here.wait_for(lambda store: any(here.steps(high)))
        here.wait_for(lambda store: store.experiments.get(low).holder is None)
        here.hurry(high)
        here.hurry(low)

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    said = serve(here)
    disturbing.join()
    assert f"experiment {low}: ending the runner, which waits for slots" in said
    assert not any("starting it again" in line for line in said)
    assert (here.state(low), here.state(high)) == ("COMPLETED", "COMPLETED")
    with here.opened() as store:
        assert [trial.restarts for trial in store.experiments.trials(low)] == [0, 0, 0]


@pytest.mark.thorough
def test_a_store_that_does_not_come_back_is_not_waited_for_for_ever(here: QueuedSearch) -> None:
    here.environment = {"DET_STORE_PATIENCE": "1"}
    with running_server() as server:
        here.store = server.new_database()
        command = [*DET, "queue", "serve", "--forever"]
        daemon = subprocess.Popen(command, env=here.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert daemon.stdout is not None
        assert "serves the queue" in daemon.stdout.readline()
    said, complaint = daemon.communicate(timeout=60)
    assert daemon.returncode == 1
    assert "; retrying" in said
    assert complaint.startswith("Cannot serve the queue: the store postgresql://")


def test_the_log_of_the_daemon_keeps_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab+") as file:
        diary = DaemonLog(file.fileno())
        for number in range(30_000):
            diary.write(f"line {number} {'x' * 30}")
    lines = path.read_text().splitlines()
    assert path.stat().st_size <= (1 << 20) + 1000
    assert f"line 29999 {'x' * 30}" in lines[-1]
    numbers = [int(line.split()[3]) for line in lines]
    assert numbers == list(range(numbers[0], 30_000))


def test_how_often_a_runner_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tried = restart_backoff.RestartBackoff()
    assert [tried.failed(1, seconds=2.0) for _ in range(4)] == [1.0, 5.0, 25.0, None]
    assert tried.failures(1) == 4
    assert [tried.failed(2, seconds=s) for s in (2.0, 2.0, 61.0, 2.0)] == [1.0, 5.0, 1.0, 5.0], "it had a good run"
    assert (tried.seconds_left(2), tried.seconds_left(3) <= 0) == (5.0, True)
    now = 105.0
    assert tried.seconds_left(2) == 0.0
    tried.keep_only({2})
    assert (tried.failures(1), tried.failures(2)) == (0, 2)
