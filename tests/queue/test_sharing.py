"""Experiments in the queue outlive their terminals, share slots, and end like uninterrupted ones."""

from __future__ import annotations

import json
import os
import pty
import random
import subprocess
import threading
from functools import partial
from typing import Any

import pytest

from tests.helpers.searches import DET
from tests.helpers.waiting import wait_until
from tests.queue.conftest import PATIENT, SEARCH, QueuedSearch


def assert_undisturbed(searches: QueuedSearch, experiment_id: int) -> None:
    """Check that each trial did all of its steps once, with the result of its hyperparameters and its seed."""
    record = searches.record(experiment_id)
    assert (record["state"], len(record["trials"])) == ("COMPLETED", 3)
    for trial in record["trials"].values():
        losses = [trial["hparams"]["lr"] + 1 / (done + trial["seed"] % 7) for done in range(1, 101)]
        expected = [("validation", done, json.dumps({"loss": loss})) for done, loss in enumerate(losses, start=1)]
        assert (trial["state"], trial["saved"], trial["best"]) == ("COMPLETED", 100, min(losses))
        assert trial["metrics"] == expected


def create_on_a_terminal(searches: QueuedSearch, fields: dict[str, Any]) -> str:
    """Create an experiment on a terminal that is then closed, and return its output. No process of that session is
    left.
    """
    path = searches.write_config(fields)
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        [*DET, "experiment", "create", str(path), str(PATIENT), "--detach"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=searches.env(),
        start_new_session=True,
    )
    os.close(theirs)
    assert shell.wait(60) == 0
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    (daemon,) = searches.daemons()
    assert os.getsid(daemon.pid) == daemon.pid != shell.pid
    return said


def test_it_outlives_its_terminal_shares_slots_and_continues_when_the_daemon_was_killed(searches: QueuedSearch) -> None:
    low, high = 1, 2
    searches.slow_down(low)
    searches.slow_down(high)
    said = create_on_a_terminal(searches, SEARCH)
    assert [word in said for word in ("Created experiment 1", "det experiment logs 1 -f", "det queue")] == [True] * 3
    searches.wait_for(lambda store: sum(step > 1 for step in searches.steps(low)) == 2)
    assert searches.detach(resources={"priority": 1, "max_slots": 1}) == high
    searches.wait_for(lambda store: any(searches.steps(high)))
    first, second = searches.queue()
    assert (first["experiment_id"], first["priority"], len(first["slots"])) == (high, 1, 1)
    assert (second["experiment_id"], second["priority"], len(second["slots"])) == (low, 42, 1)
    with searches.opened() as store:
        states = [trial.state for trial in store.experiments.trials(low)]
        saved = [trial for trial in store.experiments.trials(low) if trial.state == "QUEUED" and trial.runs]
        assert sorted(states) == ["QUEUED", "RUNNING"]
        assert saved[0].latest_checkpoint is not None, "it was saved before it left its slot"
        assert saved[0].restarts == 0
    searches.hurry(high)
    searches.wait_for(lambda store: searches.state(high) == "COMPLETED")
    assert_undisturbed(searches, high)
    searches.wait_for(lambda store: sum(row.state == "RUNNING" for row in store.experiments.trials(low)) == 2)

    # No process outlives its daemon, and nothing is lost.
    searches.kill(searches.daemons())
    searches.wait_for_exits()
    assert searches.state(low) == "ACTIVE"
    with searches.opened() as store:
        for trial in store.experiments.trials(low):
            kept = [row.steps_completed for row in store.checkpoints(trial.id)]
            assert trial.steps_completed == max(kept, default=0)
    assert "resume with: det queue resume" in searches.det("queue").stdout
    waiting = searches.det("experiment", "wait", str(low), "--polling-interval", "0.1", check=False)
    assert f"experiment {low}: it is in the queue, but no daemon serves the queue" in waiting.stderr

    threads = [threading.Thread(target=searches.det, args=("queue", "resume")) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(searches.daemons()) == 1
    searches.wait_for(lambda store: store.experiments.get(low).holder is not None)
    refused = searches.det("queue", "serve", check=False)
    assert f"is already served by process {searches.daemons()[0].pid}" in refused.stderr
    held = searches.det("experiment", "activate", str(low), check=False)
    assert f"the queue runs it; see `det queue`, or take it out with `det queue remove {low}`" in held.stderr
    searches.hurry(low)
    searches.wait(low)
    assert_undisturbed(searches, low)


@pytest.mark.thorough
def test_of_two_equals_the_first_goes_first(searches: QueuedSearch) -> None:
    first, second = searches.detach(), searches.detach()
    for experiment in (first, second):
        searches.wait(experiment)
        assert_undisturbed(searches, experiment)
    assert searches.queue() == []
    with searches.opened() as store:
        earlier, later = (store.experiments.trials(number) for number in (first, second))
    assert min(trial.started or 0.0 for trial in later) >= min(trial.ended or 0.0 for trial in earlier)


@pytest.mark.thorough
def test_three_searches_and_kills_at_random(searches: QueuedSearch) -> None:
    """Daemons and runners are killed and requested to exit, priorities change: nothing is lost or repeated."""
    luck = random.Random(7)
    experiments = (1, 2, 3)

    def trained() -> int:
        return sum(sum(searches.steps(number)) for number in experiments)

    def wait_for_steps(enough: int) -> None:
        wait_until(lambda: trained() >= enough)

    for number in experiments:
        searches.slow_down(number)
        assert searches.detach() == number
    for _ in range(8):
        wait_for_steps(trained() + luck.randint(0, 6))
        event = luck.choice(["kill the daemon", "end the daemon", "kill everything", "kill a runner", "priority"])
        runners = searches.runners()
        if event == "kill a runner" and runners:
            searches.kill([luck.choice(runners)])
        elif event == "priority":
            searches.det("experiment", "set", "priority", str(luck.choice(experiments)), str(luck.randint(1, 99)))
        else:
            for daemon in searches.daemons():
                daemon.terminate() if event == "end the daemon" else daemon.kill()
            if event == "kill everything":
                searches.kill(searches.processes())
            searches.wait_for_exits()
            searches.det("queue", "resume")
    for number in experiments:
        searches.hurry(number)
    for number in experiments:
        wait_until(partial(searches.has_stopped, number))
        if searches.state(number) == "PAUSED":  # its runner was killed once too often in a row
            searches.det("experiment", "activate", str(number), "--detach")
            searches.wait(number)
        assert_undisturbed(searches, number)
