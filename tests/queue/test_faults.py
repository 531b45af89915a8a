"""Failures of one experiment, or of the disk, do not end the daemon, which serves all experiments."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from determined.experiment.files import ExperimentFiles
from determined.queue import dispatcher
from determined.queue.daemon_log import DaemonLog
from determined.queue.files import QueueFiles
from tests.cli.det_command import det
from tests.helpers.searches import DET
from tests.helpers.waiting import wait_until
from tests.queue.conftest import SEARCH, QueuedSearch
from tests.queue.test_commands import create
from tests.queue.test_daemon import serve
from tests.queue.test_held import OtherRunner, served_while


def test_an_experiment_that_cannot_run_is_given_up_and_the_others_continue(
    here: QueuedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_SECONDS_BETWEEN_CHECKS", 0.1)
    gone, unreadable, odd, last = (create(here) for _ in range(4))
    with here.opened() as store:
        files = {
            number: ExperimentFiles.for_key(store.experiments.get(number).key) for number in (gone, unreadable, last)
        }
    for number in (unreadable, last):
        files[number].captured_environment.write_text('{"python": ')
    for number in (gone, unreadable, odd, last):
        here.put_into_queue(number)
    with sqlite3.connect(here.home / "determined" / "store.sqlite") as connection:
        connection.execute("UPDATE experiments SET config = '{}' WHERE id = ?", [odd])
    connection.close()
    other = OtherRunner(here, last)
    other.take()

    def disturb(said: list[str]) -> None:
        wait_until(lambda: any("still runs it" in line for line in said))  # all of them are known now
        shutil.rmtree(files[gone].root)
        other.send("leave")

    said = "\n".join(served_while(here, disturb))
    other.end()
    for number, reason in (
        (gone, "the files of the experiment no longer exist on this machine"),
        (odd, "cannot be run: the stored configuration has no entrypoint, or no searcher with a metric"),
        (unreadable, "cannot be run: "),
        (last, "cannot be run: "),
    ):
        assert f"experiment {number}: removed from the queue: {reason}" in said
        assert here.state(number) == "PAUSED"


def test_a_full_disk_does_not_end_the_daemon(here: QueuedSearch) -> None:
    """It cannot write what runs, but runs it."""
    here.config = {**SEARCH, "resources": {"slots_per_trial": 3}}
    experiment = create(here, "--slots", "3")
    here.put_into_queue(experiment)
    status = QueueFiles.of(str(here.home / "determined" / "store.sqlite")).status
    status.parent.mkdir(mode=0o700, exist_ok=True)
    status.with_suffix(".new").symlink_to("/dev/full")
    said = serve(here)
    assert sum("could not be written: [Errno 28]" in line for line in said) == 1
    assert here.state(experiment) == "PAUSED"


def test_the_log_says_what_it_could_not_say_while_the_disk_was_full(tmp_path: Path) -> None:
    """A log that is written to a full disk first, then to one with free space."""
    full, log = os.open("/dev/full", os.O_RDWR), os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    diary = DaemonLog(full)
    diary.write("lost")
    os.dup2(log, full)
    diary.write("kept")
    diary.write("as ever")
    os.close(full)
    os.close(log)
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.endswith(" (1 line before this one could not be written) kept")
    assert second.endswith("00 as ever")


def test_neither_a_closed_pipe_nor_a_replaced_store_ends_the_daemon(here: QueuedSearch) -> None:
    here.config = {**SEARCH, "resources": {"slots_per_trial": 3}}  # given up at once, which costs no time
    experiment = create(here, "--slots", "3")
    command, pipe = [*DET, "queue", "serve"], subprocess.PIPE
    with subprocess.Popen(command, env=here.env(), stdout=pipe, stderr=pipe, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        assert "serves the queue with 2 slots" in daemon.stdout.readline()
        daemon.stdout.close()
        here.put_into_queue(experiment)
        here.wait_for(lambda store: store.queue.find(experiment) is None)  # it writes there, and no process reads it
        for path in here.home.glob("determined/store.sqlite*"):
            path.unlink()
        assert create(here, "--slots", "3") == experiment
        here.put_into_queue(experiment)
        here.wait_for(lambda store: store.queue.find(experiment) is None)
        daemon.terminate()
        assert (daemon.wait(60), daemon.stderr.read()) == (143, "")
    assert here.state(experiment) == "PAUSED"


def test_queued_experiments_keep_the_variables_of_their_creator(
    here: QueuedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = create(here)
    here.put_into_queue(experiment)
    with here.opened() as store:
        kept = ExperimentFiles.for_key(store.experiments.get(experiment).key).captured_environment
    kept.write_text(json.dumps({"python": "python3", "environment": {"COLOUR": "red"}}))
    refused = det("experiment", "activate", str(experiment), "--detach")
    assert "is in the queue of" in refused.stderr
    assert json.loads(kept.read_text())["environment"] == {"COLOUR": "red"}
