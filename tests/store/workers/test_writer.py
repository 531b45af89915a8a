"""The thread between a run and its store: it loses no report, and does not block the program."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from determined.errors import StoreError
from determined.store.databases import sqlite
from determined.store.open import open_store
from determined.store.records import Metric
from determined.store.rows import StatusRow
from determined.store.store import Store
from determined.store.workers import writer as writing
from determined.store.workers.writer import Writer
from tests.helpers.postgres import PostgresServer
from tests.store.rows import begin, metric


@pytest.fixture
def make_writer() -> Iterator[Callable[..., Writer[Store]]]:
    made: list[Writer[Store]] = []
    gates: list[threading.Event] = []

    def make(place: str | Path, patience: float = 30, gate: threading.Event | None = None) -> Writer[Store]:
        def opened() -> Store:
            if gate is not None:
                gate.wait()
            return open_store(place)

        if gate is not None:
            gates.append(gate)
        made.append(Writer(opened, patience=patience))
        return made[-1]

    yield make
    for gate in gates:
        gate.set()
    for writer in made:
        writer.close()


def steps(place: str | Path, trial_id: int) -> list[int | None]:
    store = open_store(place)
    try:
        return [row.steps_completed for row in store.metrics(trial_id)]
    finally:
        store.close()


def test_flushed_reports_are_stored(place: str, make_writer: Callable[..., Writer[Store]]) -> None:
    writer = make_writer(place)
    attempt = writer.query(begin)
    for step in range(1000):
        writer.put(metric(attempt, "g", step, {"x": step}))
    writer.flush()
    assert steps(place, attempt.trial_id) == list(range(1000))


def test_an_answer_knows_what_was_put_before(place: str, make_writer: Callable[..., Writer[Store]]) -> None:
    writer = make_writer(place)
    attempt = writer.query(begin)
    for step in range(10):
        writer.put(metric(attempt, "g", step, {"x": step}))

        def find(store: Store, step: int = step) -> Metric | None:
            return store.find_metric(attempt.trial_id, "g", step)

        found = writer.query(find)
        assert found is not None
        assert found.metrics == {"x": step}


def test_reports_do_not_wait_for_the_disk_while_the_buffer_has_space(
    tmp_path: Path, make_writer: Callable[..., Writer[Store]]
) -> None:
    path = tmp_path / "store.sqlite"
    writer = make_writer(path)
    attempt = writer.query(begin)
    busy = sqlite3.connect(path, isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")  # no other process can write from here on
    for step in range(writing._MOST_ROWS):
        writer.put(metric(attempt, "g", step, {}))
    assert steps(path, attempt.trial_id) == []
    busy.execute("ROLLBACK")
    busy.close()
    writer.flush()
    assert len(steps(path, attempt.trial_id)) == writing._MOST_ROWS


def test_a_file_that_others_keep_busy_is_waited_for(
    tmp_path: Path,
    make_writer: Callable[..., Writer[Store]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    path = tmp_path / "store.sqlite"
    writer = make_writer(path)
    attempt = writer.query(begin)
    busy = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    busy.execute("BEGIN IMMEDIATE")
    writer.put(metric(attempt, "g", 1, {}))
    flushing = threading.Thread(target=writer.flush)
    flushing.start()
    while "other processes have been writing" not in caplog.text:
        flushing.join(0.01)
    busy.execute("ROLLBACK")
    busy.close()
    flushing.join(60)
    assert steps(path, attempt.trial_id) == [1]
    assert "locked" not in caplog.text


@pytest.mark.parametrize(("rows", "body"), [(100, ""), (4, "x" * 250_000)])
def test_a_full_queue_waits_and_drops_nothing(
    tmp_path: Path, make_writer: Callable[..., Writer[Store]], monkeypatch: pytest.MonkeyPatch, rows: int, body: str
) -> None:
    monkeypatch.setattr(writing, "_MOST_ROWS", 100)
    monkeypatch.setattr(writing, "_MOST_BYTES", 1_000_000)
    path = tmp_path / "store.sqlite"
    store = open_store(path)
    attempt = begin(store)
    store.close()
    gate = threading.Event()
    writer = make_writer(path, gate=gate)
    put: list[int] = []

    def report() -> None:
        for step in range(4 * rows):
            writer.put(metric(attempt, "g", step, {"x": body}))
            put.append(step)

    reporting = threading.Thread(target=report, daemon=True)
    reporting.start()
    while len(writer._queue) < rows - 1 or not writer._hurry:  # a thread waits for space in the buffer
        assert reporting.is_alive()
        reporting.join(0.01)
    assert len(put) < 4 * rows
    gate.set()
    reporting.join(timeout=60)
    writer.flush()
    assert steps(path, attempt.trial_id) == list(range(4 * rows))


def test_of_many_statuses_the_last_one_is_kept(place: str, make_writer: Callable[..., Writer[Store]]) -> None:
    writer = make_writer(place)
    attempt = writer.query(begin)
    for number in range(1001):
        writer.put(StatusRow(attempt.trial_id, 1, f"phase {number}", number / 1000))
    writer.flush()
    (run,) = writer.query(lambda store: store.runs())
    assert (run.phase, run.progress) == ("phase 1000", 1.0)


def test_a_server_that_was_away_has_everything_once(
    postgres: PostgresServer, make_writer: Callable[..., Writer[Store]], caplog: pytest.LogCaptureFixture
) -> None:
    place = postgres.new_database()
    writer = make_writer(place, patience=600.0)  # if it were used up, the time-out of the test would end it
    attempt = writer.query(begin)
    for round_number in range(3):
        for step in range(100):
            writer.put(metric(attempt, "g", 100 * round_number + step, {}))
            writer.put(metric(attempt, "sample", None, {"n": step}))
        if round_number == 1:
            postgres.stop()
            for step in range(300, 400):
                writer.put(metric(attempt, "g", step, {}))
            flushing = threading.Thread(target=writer.flush)
            flushing.start()
            while "cannot be reached now" not in caplog.text:
                flushing.join(0.01)
            assert flushing.is_alive()
            postgres.start()
            flushing.join()
            assert "is available again; no report was lost" in caplog.text
    writer.flush()
    assert sorted(map(int, filter(None, steps(place, attempt.trial_id)))) == list(range(1, 400))
    samples = writer.query(lambda store: store.samples(attempt.trial_id))
    assert [row.metrics["n"] for row in samples] == list(range(100)) * 3


def test_a_server_that_stays_away_ends_the_run_by_name(
    postgres: PostgresServer, make_writer: Callable[..., Writer[Store]]
) -> None:
    writer = make_writer(postgres.new_database(), patience=0.5)
    attempt = writer.query(begin)
    postgres.stop()
    try:
        writer.put(metric(attempt, "g", 1, {}))
        with pytest.raises(
            StoreError, match=r"postgresql://det:\*+@127.*cannot be reached.*0\.5 s.*DET_STORE_PATIENCE"
        ):
            writer.flush()
        with pytest.raises(StoreError, match="cannot be reached"):
            writer.put(metric(attempt, "g", 2, {}))
        writer.close()  # which was informed
    finally:
        postgres.start()


def test_a_program_that_fails_does_not_wait_long_for_a_server(
    postgres: PostgresServer, make_writer: Callable[..., Writer[Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SECONDS_IN_A_HURRY", 0.2)
    writer = make_writer(postgres.new_database(), patience=600)
    attempt = writer.query(begin)
    postgres.stop()
    try:
        writer.put(metric(attempt, "g", 1, {}))
        with pytest.raises(StoreError, match="cannot be reached"):
            writer.close(hurry=True)
    finally:
        postgres.start()


def test_a_server_that_never_existed_is_reported_soon(make_writer: Callable[..., Writer[Store]]) -> None:
    from tests.helpers.ranks import free_port

    writer = make_writer(f"postgresql://me@127.0.0.1:{free_port()}/x", patience=0.2)
    with pytest.raises(StoreError, match="cannot be reached"):
        writer.query(begin)
    with pytest.raises(StoreError, match="cannot be reached"):
        writer.query(begin)


def test_a_full_disk_is_waited_for(tmp_path: Path, make_writer: Callable[..., Writer[Store]]) -> None:
    """The space is freed by another process; SQLite's own limit on pages stands for the disk."""
    path = tmp_path / "store.sqlite"
    writer = make_writer(path)
    attempt = writer.query(begin)

    def limit(pages: int) -> Callable[[Store], object]:
        return lambda store: store._database.execute(f"PRAGMA max_page_count = {pages}")

    class FreesSpace(logging.Handler):
        """Frees space after the warning, as a user would do."""

        def emit(self, record: logging.LogRecord) -> None:
            assert "full" in record.getMessage()
            logging.getLogger("determined.store").removeHandler(self)
            assert writer._retries.store is not None
            limit(1_000_000)(writer._retries.store)

    logging.getLogger("determined.store").addHandler(FreesSpace())
    writer.query(limit(40))
    for step in range(100):
        writer.put(metric(attempt, "g", step, {"x": "x" * 5000}))
    writer.flush()
    assert steps(path, attempt.trial_id) == list(range(100))


def test_what_is_refused_for_good_is_raised_by_the_next_call(
    tmp_path: Path, make_writer: Callable[..., Writer[Store]]
) -> None:
    path = tmp_path / "store.sqlite"
    writer = make_writer(path)
    attempt = writer.query(begin)
    path.unlink()
    writer.put(metric(attempt, "g", 1, {}))
    with pytest.raises(StoreError, match="removed or replaced"):
        writer.flush()
    with pytest.raises(StoreError, match="removed or replaced"):
        writer.put(metric(attempt, "g", 2, {}))


def test_a_question_that_fails_is_answered_and_nothing_else_happens(
    place: str, make_writer: Callable[..., Writer[Store]]
) -> None:
    writer = make_writer(place)
    attempt = writer.query(begin)
    with pytest.raises(ZeroDivisionError):
        writer.query(lambda store: 1 // 0)
    writer.put(metric(attempt, "g", 1, {}))
    writer.flush()
    assert steps(place, attempt.trial_id) == [1]


def test_a_closed_writer_takes_nothing(place: str, make_writer: Callable[..., Writer[Store]]) -> None:
    writer = make_writer(place)
    attempt = writer.query(begin)
    writer.put(metric(attempt, "g", 1, {}))
    writer.close()
    writer.close()
    assert steps(place, attempt.trial_id) == [1]
    assert "determined-store" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(StoreError, match="The run has ended"):
        writer.put(metric(attempt, "g", 2, {}))


PROGRAM = """
import os, signal, sys
from determined.store.open import open_store
from determined.store.workers.writer import Writer
from tests.store.rows import begin, metric
place, how = sys.argv[1:]
writer = Writer(lambda: open_store(place), patience=30)
attempt = writer.query(begin)
for step in range(100):
    writer.put(metric(attempt, "g", step, {}))
if how == "forks":
    for leave in (os._exit, sys.exit):
        child = os.fork()
        if child == 0:
            for refused in (lambda: writer.put(metric(attempt, "g", 100, {})), lambda: writer.query(begin)):
                try:
                    refused()
                except Exception as error:
                    assert "was forked from" in str(error), error
                else:
                    os._exit(3)
            writer.flush()
            writer.close()
            store = writer._retries.store
            del writer, store
            leave(0)
        assert os.waitpid(child, 0)[1] == 0
    writer.put(metric(attempt, "g", 100, {}))
if how == "is killed":
    writer.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("how", "code", "count"), [("just ends", 0, 100), ("forks", 0, 101), ("is killed", -signal.SIGKILL, 100)]
)
def test_a_program_that(place: str, how: str, code: int, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM, place, how],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    assert steps(place, 1) == list(range(count))
