"""Experiments that are left to the queue: they outlive their terminals, share slots, and end as if nothing had been."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from typing import Any

import pytest

from determined.store.queueing import NewEntry
from tests.helpers.searches import DET
from tests.queue.conftest import PATIENT, SEARCH, QueuedSearch


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of the search when it runs in the foreground; there it does not wait for its turn."""
    home = tmp_path_factory.mktemp("undisturbed")
    search = QueuedSearch(home, PATIENT, SEARCH)
    experiment = search.create()
    with search.opened() as store:
        store.queue.add(NewEntry(experiment, "some machine", "somebody"))
    search.activate(experiment)
    with search.opened() as store:
        assert store.queue.find(experiment) is None, "it was taken out of the queue"
    return search.record(experiment)


def test_two_searches_share_the_slots_and_outlive_their_terminal(
    searches: QueuedSearch, undisturbed: dict[str, Any]
) -> None:
    path = searches.write_config(SEARCH)
    ours, theirs = pty.openpty()
    command = [*DET, "experiment", "create", str(path), str(PATIENT), "--detach"]
    both = " && ".join([" ".join(command)] * 2)
    shell = subprocess.Popen(
        ["sh", "-c", both], stdin=theirs, stdout=theirs, stderr=theirs, env=searches.env(), start_new_session=True
    )
    os.close(theirs)
    assert shell.wait(60) == 0
    said = os.read(ours, 10_000).decode()
    os.close(ours)  # the terminal is gone
    assert "Created experiment 1" in said
    assert "det experiment logs 1 -f" in said
    assert "det queue" in said

    for experiment in (1, 2):
        searches.wait(experiment)
        assert searches.record(experiment) == undisturbed
    assert searches.queue() == []
    # The second one had to wait for a slot of the first.
    with searches.opened() as store:
        first, second = (store.experiments.trials(number) for number in (1, 2))
        ends = sorted(trial.ended or 0.0 for trial in first)
        assert min(trial.started or 0.0 for trial in second) >= ends[0]


def test_a_higher_priority_takes_a_slot_and_the_daemon_is_killed(
    searches: QueuedSearch, undisturbed: dict[str, Any]
) -> None:
    low, high = 1, 2
    searches.slow_down(low)
    searches.slow_down(high)
    assert searches.detach() == low
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
    searches.wait(high)
    assert searches.record(high) == undisturbed
    searches.wait_for(lambda store: sum(row.state == "RUNNING" for row in store.experiments.trials(low)) == 2)

    # Nothing is left alive without its daemon, and nothing is lost.
    searches.kill(searches.daemons())
    searches.wait_for_silence(20)
    assert searches.state(low) == "ACTIVE"
    with searches.opened() as store:
        for trial in store.experiments.trials(low):
            kept = [row.steps_completed for row in store.checkpoints(trial.id)]
            assert trial.steps_completed == max(kept, default=0)
    assert "go on with: det queue resume" in searches.det("queue").stdout
    waiting = searches.det("experiment", "wait", str(low), "--polling-interval", "0.1", check=False)
    assert f"experiment {low} waits in the queue, and nobody serves it" in waiting.stderr

    threads = [threading.Thread(target=searches.det, args=("queue", "resume")) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(searches.daemons()) == 1
    refused = searches.det("queue", "serve", check=False)
    assert f"is being served already by process {searches.daemons()[0].pid}" in refused.stderr
    searches.wait_for(lambda store: store.experiments.get(low).holder is not None)
    held = searches.det("experiment", "activate", str(low), check=False)
    assert f"the queue runs it; see `det queue`, or take it out with `det queue remove {low}`" in held.stderr
    searches.hurry(low)
    searches.wait(low)
    assert searches.record(low) == undisturbed
    assert all(trial["state"] == "COMPLETED" for trial in undisturbed["trials"].values())
