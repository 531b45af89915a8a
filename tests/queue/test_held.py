"""Queued experiments that another process still runs, as when the daemon was killed and its runners save."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from determined.queue import dispatcher, restart_backoff
from determined.store.store import Store
from tests.helpers.waiting import wait_until
from tests.queue.conftest import SEARCH, QueuedSearch
from tests.queue.test_commands import create
from tests.queue.test_daemon import serve

# Acquires the lease of an experiment when it is instructed to, and releases it at the next line.
HOLDER = """
import select, sys
from determined.store.open import open_store
from determined.store.process import this_process

store = open_store()
while sys.stdin.readline():
    lease = store.experiments.acquire(int(sys.argv[1]), this_process())
    print("has it", flush=True)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        store.experiments.heartbeat(lease)
    sys.stdin.readline()
    store.experiments.release(lease)
store.close()
"""


class OtherRunner:
    def __init__(self, searches: QueuedSearch, experiment_id: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(experiment_id)],
            env=searches.env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")

    def take(self) -> None:
        assert self.process.stdout is not None
        self.send("take")
        assert self.process.stdout.readline() == "has it\n"

    def end(self) -> None:
        self.process.communicate(timeout=30)


def served_while(searches: QueuedSearch, disturb: Callable[[list[str]], None]) -> list[str]:
    """Return the log of a daemon, while another function runs."""
    said, failures = list[str](), list[BaseException]()

    def act() -> None:
        try:
            disturb(said)
        except BaseException as error:
            failures.append(error)
            if said:  # it handles signals by now
                os.kill(os.getpid(), signal.SIGTERM)
            raise

    acting = threading.Thread(target=act)
    acting.start()
    serve(searches, said)
    acting.join()
    assert failures == []
    return said


def beats(store: Store, experiment_id: int) -> int:
    holder = store.experiments.get(experiment_id).holder
    return 0 if holder is None else holder.heartbeat


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after the first failure, and poll often."""
    monkeypatch.setattr(restart_backoff, "PAUSES", ())
    monkeypatch.setattr(dispatcher, "_SECONDS_BETWEEN_CHECKS", 0.1)


def test_an_experiment_with_another_runner_waits_without_a_failure(here: QueuedSearch) -> None:
    experiment, taken = create(here), here.home / "taken"
    here.run_by(experiment, f"import os, time\nwhile not os.path.exists({str(taken)!r}): time.sleep(0.02)\nexit(1)")
    here.put_into_queue(experiment)
    first = create(here)
    here.run_by(first, "exit(1)")
    here.put_into_queue(first, priority=1)
    other = OtherRunner(here, experiment)
    other.take()
    waits = f"experiment {experiment}: process {other.process.pid} on "

    def started(said: list[str]) -> list[str]:
        return [line.partition(":")[0] for line in said if line.endswith(" runs it") and "still" not in line]

    def disturb(said: list[str]) -> None:
        wait_until(lambda: any(line.startswith(waits) for line in said))
        assert started(said) == [], "nor is anybody else: nobody knows which slots are free"
        other.send("leave")
        wait_until(lambda: f"experiment {experiment}" in started(said))
        other.take()  # before its runner could
        taken.touch()
        wait_until(lambda: sum(line.startswith(waits) for line in said) == 2)
        with here.opened() as store:
            assert store.queue.find(experiment) is not None
            before = beats(store, experiment)
        here.wait_for(lambda store: beats(store, experiment) > before + 12)  # while the daemon polls again
        assert here.state(experiment) == "ACTIVE"
        other.send("leave")

    said = served_while(here, disturb)
    other.end()
    assert "removed from the queue: the runner ended 1 time in a row" in said[-2]
    assert sum(line.startswith(waits) for line in said) == 2
    assert started(said).count(f"experiment {experiment}") == 2
    assert here.state(experiment) == "PAUSED"


def test_an_experiment_is_not_given_up_while_another_process_runs_it(here: QueuedSearch) -> None:
    here.config = {**SEARCH, "resources": {"slots_per_trial": 3}}
    experiment = create(here, "--slots", "3")
    here.put_into_queue(experiment)
    other = OtherRunner(here, experiment)
    other.take()

    def disturb(said: list[str]) -> None:
        wait_until(lambda: any("still runs it; waiting for that process" in line for line in said))
        with here.opened() as store:
            assert store.queue.find(experiment) is not None
        other.send("leave")

    assert any("a trial needs 3 slots" in line for line in served_while(here, disturb))
    other.end()
    assert here.state(experiment) == "PAUSED"
