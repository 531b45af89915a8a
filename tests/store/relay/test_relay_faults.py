"""A worker whose store is behind a relay that fails: errors, lost connections and answers, and repeated calls."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from determined import errors
from determined.errors import CheckpointInUse, NotFoundException, StoreError, StoreUnavailable
from determined.store.relay import client, messages
from determined.store.rows import BegunAttempt, LogRow, Row, StatusRow
from determined.store.workers.local_worker_store import LocalWorkerStore
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer
from tests.helpers.relay import Messages, Relay
from tests.store.experiments import managed_start
from tests.store.relay_trials import Served, same_identity, served
from tests.store.rows import checkpoint, metric


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store.sqlite", 2) as made:
        yield made


def begin(worker: WorkerStore, job: str = "job-1", trial_id: int = 1, key: str = "run-0") -> BegunAttempt:
    return worker.begin_attempt(managed_start(trial_id, job)._replace(key=key))


class Failing:
    """A relay that answers every request with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, requests: Messages) -> Messages:
        return [(number, messages.failed(messages.parse(body)["id"], self._error)) for number, body in requests]


class Unlisted(NotFoundException):
    """An error of the library that the relay does not know."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StoreError("a message"), StoreError),
        (NotFoundException.of("trial", 9), NotFoundException),
        (StoreUnavailable("away"), StoreUnavailable),
        (errors.StoreFull("full"), errors.StoreFull),
        (errors.StoreVersionError("older"), errors.StoreVersionError),
        (errors.StoreReadOnly("for reading"), errors.StoreReadOnly),
        (CheckpointInUse("by a model"), CheckpointInUse),
        (Unlisted("as what it is"), NotFoundException),
    ],
)
def test_errors_are_raised_again(error: Exception, kind: type[Exception]) -> None:
    relay = Relay(Failing(error))
    worker = client.RelayedWorkerStore(relay.path, "job-1")
    with pytest.raises(errors.DeterminedError) as raised:
        worker.trial(1)
    assert type(raised.value) is kind
    assert str(raised.value) == str(error)
    worker.close()
    relay.close()


def test_an_unknown_failure_is_tried_again() -> None:
    relay = Relay(Failing(ZeroDivisionError("by zero")))
    worker = client.RelayedWorkerStore(relay.path, "job-1")
    with pytest.raises(StoreUnavailable, match="ZeroDivisionError: by zero"):
        worker.trial(1)
    worker.close()
    relay.close()


def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SECONDS_TO_ANSWER", 0.1)
    relay = Relay(lambda _: [])
    worker = client.RelayedWorkerStore(relay.path, "job-1")
    with pytest.raises(StoreUnavailable, match="timed out"):
        worker.trial(1)
    worker.close()
    relay.close()


def test_an_answer_to_another_request_is_none() -> None:
    relay = Relay(lambda requests: [(number, messages.answered(99, None)) for number, _ in requests])
    worker = client.RelayedWorkerStore(relay.path, "job-1")
    with pytest.raises(StoreUnavailable, match="unexpected answer"):
        worker.trial(1)
    worker.close()
    relay.close()


# Connections that are cut


class Cutting:
    """A relay that cuts connections: before a request is carried out, or between that and the answer."""

    def __init__(self, trials: Served, cuts: list[str]) -> None:
        self._trials = trials
        self._cuts = cuts  # for each request: "before", "after" or "" (it is answered)
        self.relay = Relay(self._answer)

    def _answer(self, requests: Messages) -> Messages:
        answers = []
        for request in requests:
            cut = self._cuts.pop(0) if self._cuts else ""
            answered = [] if cut == "before" else self._trials.server.answer([request], self._trials.current).bodies
            if cut:
                self.relay.socket._connections[request[0]].socket.shutdown(socket.SHUT_RDWR)
            else:
                answers += answered
        return answers


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_call_whose_connection_is_cut_is_repeated(trials: Served, cut: str) -> None:
    cutting = Cutting(trials, [cut])
    worker = cast(WorkerStore, client.RelayedWorkerStore(cutting.relay.path, "job-1"))
    with pytest.raises(StoreUnavailable, match="no answer"):
        begin(worker)
    assert len(trials.store.attempts(1)) == (0 if cut == "before" else 1)
    begun = begin(worker)  # over a new connection
    assert [attempt.number for attempt in trials.store.attempts(1)] == [begun.number] == [1]
    worker.close()
    cutting.relay.close()


def test_a_writer_loses_and_repeats_nothing(trials: Served, tmp_path: Path) -> None:
    """Every second request or answer is lost, in turns."""
    cutting = Cutting(trials, ["before", "", "after", ""] * 20)
    opened = cast(WorkerStore, client.RelayedWorkerStore(cutting.relay.path, "job-1"))
    writer: Writer[WorkerStore] = Writer(lambda: opened, patience=60)
    begun = writer.query(begin)
    rows: list[Row] = []
    for step in range(1, 11):
        rows += [
            metric(begun, "training", step, {"loss": 1 / step}),
            metric(begun, "system", None, {"cpu": step}),
            LogRow(1, begun.number, 0, step, "stdout", f"line {step}", 5.0),
            checkpoint(begun, step, f"checkpoint-{step}"),
            StatusRow(1, begun.number, progress=step / 10),
        ]
        for row in rows[-5:]:
            writer.put(row)
        writer.flush()
    writer.close()
    cutting.relay.close()
    with served(tmp_path / "direct.sqlite", 2) as direct:
        same_identity(direct.store, trials.path)
        begin(cast(WorkerStore, LocalWorkerStore(direct.store)))
        direct.store.write(rows)
        assert without_ids(trials.rows()) == without_ids(direct.rows())


def without_ids(tables: dict[str, list[Any]]) -> dict[str, list[str]]:
    """Return the rows as sorted texts. A repeated write may use up ids of rows, and changes the order of tables."""
    return {
        table: sorted(json.dumps({**row, "id": 0} if table != "trials" else row) for row in rows)
        for table, rows in tables.items()
        if table != "sqlite_sequence"
    }
