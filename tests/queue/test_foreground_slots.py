"""Experiments in the foreground and in the queue do not use the same slots, also in different stores."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import warm
from tests.helpers.searches import DET
from tests.helpers.terminal import CTRL_C, Terminal
from tests.helpers.waiting import wait_until
from tests.queue.conftest import PATIENT, SEARCH, QueuedSearch

SINGLE = {**SEARCH, "searcher": {"name": "single", "metric": "loss"}, "hyperparameters": {"lr": 0.5}}


@contextmanager
def in_foreground(searches: QueuedSearch, experiment_id: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run an experiment as a user does in a terminal; its output is in `searches.said`."""
    process = searches.start(experiment_id, *options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_foreground_experiment_waits_for_one_of_another_store(searches: QueuedSearch, tmp_path: Path) -> None:
    other = QueuedSearch(tmp_path / "other", PATIENT, SEARCH)
    first, second = searches.create(), other.create()
    searches.slow_down(first)
    with in_foreground(searches, first) as holder:
        searches.wait_for(lambda store: any(searches.steps(first)))
        with in_foreground(other, second) as waiting:
            place = searches.home / "determined" / "store.sqlite"
            expected = f"Waiting for 2 of 2 slots, held by experiment {first} (process {holder.pid}, store {place})"
            wait_until(lambda: expected in other.said.read_text(), "it does not say what it waits for")
            config = str(other.write_config(SEARCH))
            refused = other.det("experiment", "create", config, str(PATIENT), "--no-wait", check=False)
            assert refused.returncode == 1
            assert f"held by experiment {first}" in refused.stderr
            assert "Waiting for" not in refused.stderr
            with other.opened() as store:
                assert [row.id for row in store.experiments.list()] == [second]
            assert not any(other.steps(second))
            searches.hurry(first)
            assert holder.wait(60) == 0
            assert waiting.wait(60) == 0
    assert (searches.state(first), other.state(second)) == ("COMPLETED", "COMPLETED")


def test_the_queue_waits_for_the_foreground_and_share_does_not(searches: QueuedSearch) -> None:
    first = searches.create()
    searches.slow_down(first)
    with in_foreground(searches, first) as holder:
        searches.wait_for(lambda store: any(searches.steps(first)))
        queued = searches.detach()
        log = searches.home / "determined" / "queue"
        said = f"slots that are held outside the queue, by experiment {first} (process {holder.pid}"
        wait_until(lambda: any(said in path.read_text() for path in log.glob("*.log")), "the daemon does not say so")
        assert not any(searches.steps(queued))
        shared = searches.create()
        with in_foreground(searches, shared, "--share") as beside:
            assert beside.wait(60) == 0
        assert not any(searches.steps(queued))
        searches.hurry(first)
        assert holder.wait(60) == 0
    searches.wait_for(lambda store: searches.state(queued) == "COMPLETED")


def test_the_foreground_waits_for_the_queue_and_can_be_interrupted(searches: QueuedSearch) -> None:
    searches.slow_down(1)
    assert searches.detach() == 1
    searches.wait_for(lambda store: any(searches.steps(1)))
    second = searches.create()
    with in_foreground(searches, second) as waiting:
        wait_until(lambda: "held by experiment 1 (process " in searches.said.read_text(), "it does not wait")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
    assert searches.state(second) == "PAUSED"
    for columns in (80, 140):  # nothing is saved there, and nothing else is printed
        command = [*DET, "experiment", "activate", str(second)]
        with Terminal(command, columns=columns, env=searches.env()) as terminal:
            terminal.read_until(b"Ctrl-C pauses the experiment\x1b")  # the last line of the live view
            terminal.write(CTRL_C)
            terminal.read_to_the_end()
            assert terminal.wait() == 130
        shown = terminal.seen.decode()
        assert "Pausing: no trial is running" in "\n".join(terminal.screen())
        assert "saving" not in shown
        assert "Rung" not in shown  # of a random search
        last_frame = shown.rpartition("PAUSED")[0].rpartition("PAUSED")[2] + shown.rpartition("PAUSED")[2]
        assert "Ctrl-C pauses" not in last_frame
    searches.hurry(1)
    searches.wait_for(lambda store: searches.state(1) == "COMPLETED")


def test_single_trials_share_the_machine(searches: QueuedSearch) -> None:
    """An experiment holds only the slots that it can use."""
    searches.config = SINGLE
    first, second = searches.create(), searches.create()
    searches.slow_down(first)
    with in_foreground(searches, first) as holder:
        searches.wait_for(lambda store: any(searches.steps(first)))
        with in_foreground(searches, second) as beside:
            assert beside.wait(60) == 0
        searches.hurry(first)
        assert holder.wait(60) == 0


def test_slots_of_a_killed_runner_are_free(searches: QueuedSearch) -> None:
    first, second = searches.create(), searches.create()
    searches.slow_down(first)
    with in_foreground(searches, first):
        searches.wait_for(lambda store: any(searches.steps(first)))
    done = warm.run(
        [*DET, "experiment", "activate", str(second), "--no-wait"], env=searches.env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_options_that_exclude_each_other(searches: QueuedSearch) -> None:
    refused = searches.det("experiment", "activate", "1", "--no-wait", "--share", check=False)
    assert refused.returncode == 2
    assert "--no-wait and --share exclude each other" in refused.stderr
