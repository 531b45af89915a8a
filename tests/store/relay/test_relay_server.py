"""How a runner answers the requests of its workers: hostile ones, many at once, and while its store fails."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.errors import StoreError, StoreUnavailable, StoreVersionError
from determined.store.open import open_store
from determined.store.relay import codec, messages
from determined.store.relay.server import RelayServer
from determined.store.rows import (
    BegunAttempt,
)
from determined.store.workers.worker_store import WorkerStore
from tests.store.experiments import managed_start
from tests.store.relay_trials import Served, served
from tests.store.rows import metric

MINE, OTHER = 1, 2


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store.sqlite", 2) as made:
        yield made


@pytest.fixture
def worker(trials: Served) -> Iterator[WorkerStore]:
    made = trials.worker("job-1")
    yield made
    made.close()


@pytest.fixture
def begun(worker: WorkerStore) -> BegunAttempt:
    return worker.begin_attempt(managed_start(MINE, "job-1")._replace(key="mine-0"))


def ask(number: int, job: str, call: str, *arguments: Any) -> bytes:
    given = [[[codec.tagged(row) for row in arguments[0]]]] if call == "write" else [arguments]
    return messages.request(number, job, call, json.dumps(*given), hello=True)


def answer(trials: Served, *bodies: bytes) -> list[Any]:
    """Return the results of requests that arrive together; an error is returned, not raised."""
    answers = trials.server.answer(list(enumerate(bodies)), trials.current).bodies
    assert [number for number, _ in answers] == list(range(len(bodies)))
    parsed = [messages.parse(body) for _, body in answers]
    return [messages.error_of(each) or each["result"] for each in parsed]


def test_jobs_that_have_validated_are_named(trials: Served, begun: BegunAttempt) -> None:
    def validated(group: str) -> list[str]:
        body = ask(0, "job-1", "write", [metric(begun, group, 1, {"loss": 1.0})])
        return trials.server.answer([(1, body)], trials.current).validated

    assert validated("training") == []
    assert validated("validation") == ["job-1"]


# Requests that our workers never send


@pytest.mark.parametrize("body", ["", "null", "[1, 2]", '"loss"', '{"loss": ', "{} ", " {}", "{}{}", "[" * 100_000])
def test_reports_must_be_json_objects(trials: Served, worker: WorkerStore, begun: BegunAttempt, body: str) -> None:
    with pytest.raises(StoreError, match="must be a JSON object"):
        worker.write([metric(begun, "training", 1, {})._replace(body=body)])
    assert trials.store.metrics(MINE) == []


HOSTILE = {
    "no JSON": b"\x00\x01garbage",
    "no UTF-8": b'{"id": 1, "call": "\xff"}',
    "a list": b"[1, 2]",
    "nothing": b"{}",
    "deep": b"[" * 200_000,
    "a number with many digits": b'{"id": ' + b"9" * 5000 + b"}",
    "no call": b'{"id": 1, "job": "job-1", "args": []}',
    "a call that is no text": b'{"id": 1, "job": "job-1", "call": ["trial"], "args": []}',
    "a job that is no text": b'{"id": 1, "job": {"a": 1}, "call": "trial", "args": []}',
    "arguments by name": b'{"id": 1, "job": "job-1", "call": "trial", "args": {"trial_id": 1}}',
    "another job": ask(1, "unknown", "trial", MINE),
    "close": ask(1, "job-1", "close"),
    "place": ask(1, "job-1", "place"),
    "__class__": ask(1, "job-1", "__class__"),
    "__init__": ask(1, "job-1", "__init__", "x"),
    "_store": ask(1, "job-1", "_store"),
    "too few arguments": ask(1, "job-1", "trial"),
    "too many arguments": ask(1, "job-1", "trial", MINE, MINE),
    "a wrong type": ask(1, "job-1", "trial", "1"),
    "a deep argument": b'{"id": 1, "job": "job-1", "call": "write", "args": [' + b"[" * 900 + b"]" * 900 + b"]}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_requests_are_refused_without_harm(trials: Served, begun: BegunAttempt, what: str) -> None:
    before = trials.rows()
    good = ask(2, "job-1", "trial", MINE)
    first, refused, last = answer(trials, good, HOSTILE[what], good)
    assert type(refused) is StoreError
    assert first == last
    assert first[0] == MINE
    assert trials.rows() == before


def test_a_worker_of_another_version_gets_an_error(trials: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(messages, "PROTOCOL", 99)
        body = ask(1, "job-1", "begin_attempt", managed_start(MINE, "job-1"))
    (refused,) = answer(trials, body)
    assert type(refused) is StoreVersionError
    assert "version 99" in str(refused)
    assert trials.store.attempts(MINE) == [], "nothing of it is carried out"


# Batches


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "many.sqlite", 5) as made:
        begins = [ask(0, job, "begin_attempt", managed_start(trial, job)) for job, trial in made.jobs.items()]
        answer(made, *begins)
        yield made


def report(trial_id: int, step: int, sequence: int | None = None) -> bytes:
    row = metric(BegunAttempt(1, trial_id, 1, {}, 0), "training", step, {"loss": 1.0})
    return ask(step, f"job-{trial_id}", "write", [row if sequence is None else row._replace(sequence=sequence)])


def statements(trials: Served, *bodies: bytes) -> list[str]:
    """Return the statements of the server's connection for requests that all succeed."""
    found: list[str] = []
    connection = trials.server._store._database._connection  # type: ignore[union-attr]
    connection.set_trace_callback(found.append)
    assert not [result for result in answer(trials, *bodies) if isinstance(result, Exception)]
    connection.set_trace_callback(None)
    return found


def test_rows_of_many_trials_share_a_transaction(many: Served) -> None:
    found = statements(many, *(report(trial, 1) for trial in many.trials), ask(9, "job-1", "decision", 1, 0))
    assert found.count("COMMIT") == 1
    assert [len(many.store.metrics(trial)) for trial in many.trials] == [1] * 5


def test_a_trial_whose_rows_cannot_be_written_fails_alone(many: Served) -> None:
    results = answer(many, report(1, 1), report(2, 1, sequence=2**70), report(3, 1))
    assert results[0] is results[2] is None
    assert type(results[1]) is StoreError
    assert "64 bits" in str(results[1])
    assert [len(many.store.metrics(trial)) for trial in (1, 2, 3)] == [1, 0, 1]


def test_a_request_that_is_delivered_twice_is_written_once(many: Served) -> None:
    body = report(1, 1)
    assert answer(many, body, body) == [None, None]
    assert answer(many, body) == [None]
    assert [row.metrics for row in many.store.metrics(1)] == [{"loss": 1.0}]


def test_a_store_that_is_locked_is_waited_for_once(many: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE_PATIENCE", "0.05")
    server = RelayServer(lambda: open_store(many.path))
    for job, trial_id in many.jobs.items():
        server.answer([(1, ask(0, job, "begin_attempt", managed_start(trial_id, job)))], many.current)
    begun = [ask(1, job, "begin_attempt", managed_start(trial, job)) for job, trial in many.jobs.items()]
    with sqlite3.connect(many.path, isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        tried: list[str] = []
        server._store._database._connection.set_trace_callback(tried.append)  # type: ignore[union-attr]
        answers = server.answer(list(enumerate(begun)), many.current).bodies
        holder.execute("ROLLBACK")
    holder.close()
    errors = [messages.error_of(messages.parse(body)) for _, body in answers]
    assert [type(error) for error in errors] == [StoreUnavailable] * 5
    assert tried == ["BEGIN IMMEDIATE"]
    after = server.answer(list(enumerate(begun)), many.current).bodies
    assert not any(messages.error_of(messages.parse(body)) for _, body in after)
    server.close()


def test_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, but it is long enough to look like one" * 100)
    server = RelayServer(lambda: open_store(tmp_path / "text"))
    answers = server.answer([(4, ask(7, "job-1", "trial", 1)), (5, b"garbage")], lambda _: 1).bodies
    first, second = (messages.parse(body) for _, body in answers)
    assert (first["id"], second["id"]) == (7, None)
    assert type(messages.error_of(first)) is StoreError


def test_a_defect_of_the_library_is_logged_and_answered(
    trials: Served, begun: BegunAttempt, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("determined.store.workers.local_worker_store.LocalWorkerStore.trial", broken)
    (error,) = answer(trials, ask(1, "job-1", "trial", MINE))
    assert type(error) is StoreUnavailable
    assert "ZeroDivisionError: by zero" in caplog.text


def test_an_answer_that_is_too_large(trials: Served, begun: BegunAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("determined.store.relay.server.LARGEST", 100)
    (error,) = answer(trials, ask(1, "job-1", "trial", MINE))
    assert type(error) is StoreError
    assert "at most 100" in str(error)
