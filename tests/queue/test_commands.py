"""Commands for experiments that wait in the queue, while no daemon serves it."""

from __future__ import annotations

import csv
import json
import socket
from io import StringIO

import pytest

from determined import core
from determined.store.substores.queue import NewEntry
from tests.cli.det_command import det, det_json, det_ok, head_of, rows_of
from tests.queue.conftest import SEARCH, QueuedSearch

COLUMNS = ["Position", "Experiment ID", "Name", "Priority", "State", "Slots", "Progress", "Added"]


@pytest.fixture
def waiting(here: QueuedSearch) -> QueuedSearch:
    """Queue the experiments 1 and 2; 3 is paused."""
    for number in (1, 2, 3):
        assert create(here) == number
    here.put_into_queue(1)
    here.put_into_queue(2)
    return here


def create(search: QueuedSearch, *options: str) -> int:
    path = search.write_config(search.config)
    created = det("experiment", "create", str(path), str(search.model_dir), "--paused", "--json", *options)
    return int(json.loads(created.stdout)["id"])


def places() -> list[tuple[str, str]]:
    rows = csv.DictReader(StringIO(det("queue", "list", "--csv").stdout))
    return [(row["Experiment ID"], row["Priority"]) for row in rows]


def test_the_list(waiting: QueuedSearch) -> None:
    text = det_ok("queue")
    assert head_of(text) == COLUMNS
    *table, hint = text.splitlines()
    assert hint == "No daemon serves the queue; resume with: det queue resume"
    first, second = rows_of("\n".join(table))
    assert (first["Position"], first["Experiment ID"], first["Name"], first["State"]) == (
        "1",
        "1",
        "patient",
        "ACTIVE",
    )
    assert (second["Position"], second["Slots"], second["Progress"]) == ("2", "0", "0.0%")
    done = det("queue", "--json")
    assert "resume with: det queue resume" in done.stderr
    assert "is in the queue, but no daemon serves the queue" in det_ok("experiment", "describe", "1")


def test_other_queues_of_the_same_store_are_named(waiting: QueuedSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "other queues" not in det_ok("queue")
    with waiting.opened() as store:
        store.queue.add(NewEntry(3, "-a", "somebody\nelse"))
    theirs = "In other queues of this store: 1 experiment waits on host -a for user somebody\\nelse"
    assert det_ok("queue").splitlines()[-1] == theirs
    host = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "renamed")
    empty, line = det_ok("queue", "resume").splitlines()
    assert empty == "The queue is empty: there is nothing to resume."
    assert {theirs, f"2 experiments wait on host {host}"} == set(line.split(", "))
    assert det("queue", "--json").stderr == f"{line}\n"


def test_priorities(waiting: QueuedSearch) -> None:
    assert places() == [("1", "42"), ("2", "42")]
    assert det_ok("experiment", "set", "priority", "2", "7") == "Experiment 2: queue priority set to 7\n"
    assert places() == [("2", "7"), ("1", "42")]
    assert det("experiment", "set", "priority", "2", "0").exit_code == 2
    refused = det("experiment", "set", "priority", "3", "7")
    assert (refused.exit_code, "experiment 3: it is not in the queue" in refused.stderr) == (1, True)


def test_out_of_the_queue(waiting: QueuedSearch) -> None:
    for command, state in (("pause", "PAUSED"), ("cancel", "CANCELED")):
        number = places()[0][0]
        assert det_json("experiment", command, number)["state"] == state
        assert number not in dict(places())
        again = det("queue", "remove", number)
        assert (
            f"Cannot remove experiment {number} from the queue: it is not in the queue: it is {state}" in again.stderr
        )
    for words, state in ((("queue", "remove"), "PAUSED"), (("experiment", "kill"), "CANCELED")):
        waiting.put_into_queue(3)
        assert det_json(*words, "3")["state"] == state
        assert places() == []


def test_what_cannot_be_put_there(waiting: QueuedSearch) -> None:
    def refused(*words: str) -> str:
        done = det("experiment", "activate", *words, "--detach")
        assert (done.exit_code, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "activate experiment 1: it is in the queue of" in refused("1")
    with core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
    assert "experiment 4: it is a standalone run of" in refused("4")
    assert "expected more than the present 3, got 2" in refused("3", "--max-trials", "2")
    det_ok("experiment", "cancel", "3")
    assert "it is CANCELED. To run it again: det experiment fork 3" in refused("3")
    waiting.config = {**SEARCH, "searcher": {"name": "single", "metric": "loss"}, "resources": {"slots_per_trial": 2}}
    single = str(create(waiting))
    assert "the search cannot be extended" in refused(single, "--max-trials", "2")
    assert "a trial wants 2 slots" in refused(single, "--slots", "1")
    for path in waiting.home.glob("determined/experiments/*/config.json"):
        path.unlink()
    assert f"experiment {single}: its files are not on this machine" in refused(single)
    assert places() == [("1", "42"), ("2", "42")]
    assert waiting.daemons() == []


def test_options_that_exclude_each_other(here: QueuedSearch) -> None:
    path = str(here.write_config(SEARCH))
    for option in ("--follow", "--paused", "--test"):
        done = det("experiment", "create", path, str(here.model_dir), "--detach", option)
        assert (done.exit_code, "exclude each other" in done.stderr) == (2, True)
    done = det("experiment", "activate", "1", "--detach", "--follow")
    assert (done.exit_code, "exclude each other" in done.stderr) == (2, True)
