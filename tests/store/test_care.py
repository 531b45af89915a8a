"""Maintenance of a store: backups while others write, consistency checks, vacuum."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from determined.errors import StoreError
from determined.store.maintenance.check import check_store
from determined.store.maintenance.info import read_info
from determined.store.maintenance.sqlite_file import back_up
from determined.store.maintenance.vacuum import vacuum_store
from determined.store.open import open_store, opened_database
from determined.store.rows import LogRow
from tests.helpers.postgres import PostgresServer
from tests.store.experiments import begin_managed, with_trials
from tests.store.moving import fill
from tests.store.rows import alive, begin, checkpoint

# Writes reports as fast as possible until its standard input is closed; prints a line after the first.
WRITER = """
import select, sys
from determined.store.open import open_store
from tests.store.rows import begin, metric
store = open_store(sys.argv[1])
attempt = begin(store)
step = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    step += 1
    store.write([metric(attempt, "training", step, {"loss": step, "text": "x" * 500})])
    if step == 1:
        print("writing", flush=True)
store.close()
print(step)
"""


@pytest.fixture
def filled(place: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DET_STORE", place)
    store = open_store(place)
    fill(store)
    store.close()
    return place


def findings() -> list[str]:
    return [str(finding) for finding in check_store(lambda what: None)[1]]


def test_copies_while_another_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy is complete, later ones have more rows; the writer does not wait for them."""
    place = tmp_path / "store.sqlite"
    steps = []
    command = [sys.executable, "-c", WRITER, str(place)]
    repository = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        for number in range(5):
            copy = tmp_path / f"copy-{number}.sqlite"
            told: list[tuple[int, int]] = []
            assert back_up(place, copy, lambda *pages, told=told: told.append(pages)) == copy.stat().st_size
            assert told[-1][0] == told[-1][1]
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            monkeypatch.setenv("DET_STORE", str(copy))
            assert findings() == []
            store = open_store(copy)
            steps.append(len(store.metrics(store.runs()[0].trial_id)))
            store.close()
        rest, _ = writer.communicate(timeout=60)
    assert steps == sorted(steps)
    assert steps[0] < steps[-1] <= int(rest)
    assert not list(tmp_path.glob(".*"))


def test_a_copy_is_complete_or_absent(tmp_path: Path) -> None:
    damaged = tmp_path / "store.sqlite"
    store = open_store(damaged)
    fill(store)
    store.close()
    content = bytearray(damaged.read_bytes())
    content[8192:12288] = b"\xa5" * 4096
    damaged.write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged.*det store check|malformed"):
        back_up(damaged, tmp_path / "copy", lambda *pages: None)
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(StoreError, match="already exists"):
        back_up(damaged, tmp_path / "mine", lambda *pages: None)
    assert (tmp_path / "mine").read_text() == "mine"
    with pytest.raises(OSError, match="No such file"):
        back_up(damaged, tmp_path / "nowhere" / "copy", lambda *pages: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "store.sqlite"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE trials SET attempt = 7 WHERE id = 1", "trials: their number of attempts .*: 1$"),
        ("UPDATE trials SET steps_completed = 7 WHERE id = 2", "trials: their largest step .*: 2$"),
        ("UPDATE trials SET best_step = 7 WHERE id = 1", "trials: the validation that is their best .*: 1$"),
        ("UPDATE trials SET best_metric = 7 WHERE id = 1", "trials: their best validation is not .*: 1$"),
        ("UPDATE trials SET hparams = 'x' WHERE id = 2", "trials: hparams of 2 is not JSON$"),
        ("UPDATE trials SET passed_hparams = '[1]' WHERE id = 2", "trials: passed_hparams of 2 is no map$"),
        ("UPDATE checkpoints SET state = 'GONE' WHERE id = 2", "checkpoints: no state is called 'GONE'$"),
        ("UPDATE checkpoints SET state = 'DELETED'", "model_versions: their checkpoints are deleted: 1$"),
        ("DELETE FROM leases WHERE experiment_id = 1", "experiments: they cannot be run.*: 1$"),
        ("DELETE FROM journal", "experiments: their search's state is newer.*: 1$"),
        ("DROP INDEX logs_in_order", "logs: the index logs_in_order is missing"),
        ("ALTER TABLE trials DROP COLUMN reason", "trials: the column reason is missing"),
        ("DROP TABLE checkpoint_uses", "checkpoint_uses: the table is missing"),
        ("CREATE TABLE guests (x TEXT)", "guests: this table is not ours"),
    ],
)
def test_what_is_broken_is_found(filled: str, statement: str, words: str) -> None:
    assert findings() == []
    with opened_database(filled) as database:
        database.execute(statement)
    (found,) = [finding for finding in findings() if "not kept by the server" not in finding]
    assert re.search(words, found), found


def test_rows_that_belong_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "store.sqlite"
    monkeypatch.setenv("DET_STORE", str(place))
    store = open_store(place)
    fill(store)
    store.close()
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE logs SET trial_id = trial_id + 90")
    assert findings() == ["logs: 2 rows refer to missing rows of trials"]


def test_a_server_that_does_not_keep_references(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE", postgres.new_database())
    with opened_database() as database:
        database.execute("ALTER TABLE logs DROP CONSTRAINT logs_trial_id_fkey")
    assert findings() == ["logs: 1 of its references are not kept by the server"]


def test_space_is_reclaimed_when_no_process_writes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE", place)
    store = open_store(place)
    attempt = begin(store, process=alive())
    lines = [LogRow(attempt.trial_id, 1, 0, number, "stdout", "x" * 1000, 1.0) for number in range(2000)]
    store.write(lines)
    if not place.startswith("postgresql"):
        with pytest.raises(StoreError, match="experiment 1 is running"):
            vacuum_store()
    with opened_database(place) as database:
        database.execute("UPDATE attempts SET state = 'completed'")
        database.execute("DELETE FROM logs")
    swept = vacuum_store()
    assert swept.before - swept.after > (0 if place.startswith("postgresql") else 1_000_000)
    store.write([checkpoint(attempt, 1, str(uuid.uuid4()))])  # the process that had it open continues
    store.close()
    assert findings() == []


def test_what_a_store_holds(filled: str, data_home: Path) -> None:
    (data_home / "determined" / "runs" / "1").mkdir(parents=True)
    (data_home / "determined" / "runs" / "1" / "events").write_bytes(b"x" * 1234)
    found = read_info()
    assert found.kind == ("postgresql" if filled.startswith("postgresql") else "sqlite")
    assert "s3cr3t" not in found.place
    assert found.rows["experiments"] == 4
    assert found.rows["queue"] == 0
    assert found.experiments == {"ACTIVE": 1, "BY_HAND": 2, "COMPLETED": 1}
    assert found.checkpoints == {"ACTIVE": 3}
    assert found.bytes > 10_000
    (entry,) = [entry for entry in found.contents if entry.name == "runs"]
    assert (entry.files, entry.bytes) == (1, 1234)


def test_the_log_of_a_file_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE", str(tmp_path / "store.sqlite"))
    store = open_store()
    lease, trials = with_trials(store, 1)
    begin_managed(store, lease, trials[0])
    found = read_info()
    assert found.log_bytes == (tmp_path / "store.sqlite-wal").stat().st_size > 0
    assert found.bytes == found.log_bytes + (tmp_path / "store.sqlite").stat().st_size
    store.close()


def test_a_copy_where_files_have_one_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup on a file system without hard links, such as that of a memory stick."""

    def refuse(source: object, target: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(source))

    monkeypatch.setattr(os, "link", refuse)
    open_store(tmp_path / "store.sqlite").close()
    size = back_up(tmp_path / "store.sqlite", tmp_path / "copy.sqlite", lambda *pages: None)
    assert (tmp_path / "copy.sqlite").stat().st_size == size
    assert not list(tmp_path.glob(".*"))
