"""A daemon that was requested to exit, and waits for trials that save: it accepts no new experiment."""

from __future__ import annotations

import os
import threading

import pytest

from determined.queue import daemon_start
from determined.queue.files import QueueFiles, daemon_start_lock, take_daemon_lock
from determined.queue.status import Status, write_status
from tests.cli.det_command import det, det_ok
from tests.queue.conftest import QueuedSearch
from tests.queue.test_commands import create

TOLD = "the queue daemon is shutting down; when it has exited, run: det queue resume"


class Leaving:
    """A daemon that shuts down, as other processes see it: it holds the lock, and its status says so."""

    def __init__(self, files: QueueFiles) -> None:
        with daemon_start_lock(files):
            lock = take_daemon_lock(files)
        assert lock is not None
        self._lock = lock
        write_status(files, Status(os.getpid(), 0.0, 2, {}, leaving=True))

    def end(self) -> None:
        os.close(self._lock)


def test_adding_to_a_daemon_that_exits_waits_or_is_refused(here: QueuedSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_start, "_SECONDS_TO_SHUT_DOWN", 0.2)
    here.config = {**here.config, "resources": {"slots_per_trial": 3}}  # given up at once, which costs no time
    experiment = create(here, "--slots", "3")
    leaving = Leaving(QueueFiles.of(str(here.home / "determined" / "store.sqlite")))
    added = det("experiment", "activate", str(experiment), "--detach")
    assert (added.exit_code, added.stderr) == (0, f"Experiment {experiment} is in the queue, but {TOLD}\n")
    assert "which runs it" not in added.stdout
    assert TOLD[1:] in det_ok("queue")
    resumed = det("queue", "resume")
    assert (resumed.exit_code, TOLD in resumed.stderr) == (1, True)

    monkeypatch.setattr(daemon_start, "_SECONDS_TO_SHUT_DOWN", 30.0)
    threading.Timer(0.3, leaving.end).start()
    assert det_ok("queue", "resume") == "Resumed the queue with 1 experiment.\n"
    here.wait_for(lambda store: store.queue.find(experiment) is None)
    assert here.state(experiment) == "PAUSED"
