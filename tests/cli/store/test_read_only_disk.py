"""A store on a read-only file system: commands that read work, the others say why they cannot."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from determined.errors import StoreReadOnly
from determined.queue.files import QueueFiles, take_daemon_lock
from determined.store.databases.schema import MIGRATIONS
from determined.store.open import checked_place
from tests.cli.det_command import det, det_json
from tests.cli.every_command import COMMANDS
from tests.cli.filling import new_experiment
from tests.cli.forking import Forking, Result
from tests.cli.searched import Searched
from tests.helpers.mounts import read_only
from tests.helpers.records import opened

# They start or control processes that write to the store, though their own answer only reads it.
_WRITE_FILES = ("queue serve",)


@pytest.fixture
def given(filled_store: dict[str, str]) -> dict[str, str]:
    assert det("store", "export", "export.jsonl").exit_code == 0
    lock = take_daemon_lock(QueueFiles.of(checked_place()))  # left by a process that served the queue
    assert lock is not None
    os.close(lock)
    return {**filled_store, "export": "export.jsonl"}


@pytest.fixture(params=["no log", "a log"])
def store_file(request: pytest.FixtureRequest, given: dict[str, str], searched: Searched, tmp_path: Path) -> Path:
    """Return a store as its last writer has closed it, or as a crash left it: with rows that are only in the log."""
    path = searched.home / "determined" / "store.sqlite"
    if request.param == "a log":
        kept = tmp_path / "kept"
        kept.mkdir()
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("PRAGMA wal_autocheckpoint = 0")
            writer.execute("UPDATE experiments SET description = 'only in the log' WHERE id = 1")
            for file in path.parent.glob("store.sqlite*"):
                shutil.copy2(file, kept)
        for file in kept.glob("store.sqlite*"):
            shutil.copy2(file, path.parent)
        (path.parent / "store.sqlite-shm").unlink()
        assert (path.parent / "store.sqlite-wal").stat().st_size
    else:
        assert not (path.parent / "store.sqlite-wal").exists()
    return path


def run(name: str, given: dict[str, str], forking: Forking, directory: str) -> Result:
    arguments = shlex.split(COMMANDS[name].arguments)
    words = [*name.split(), *(word.format(**given, directory=directory) for word in arguments)]
    variables = {name: os.environ.get(name, "") for name in ("XDG_DATA_HOME", "DET_STORE")}
    return forking.det(*words, environment=variables, cwd=Path.cwd())


def test_every_command(store_file: Path, given: dict[str, str], forking: Forking, searched: Searched) -> None:
    reading = [name for name, case in COMMANDS.items() if case.store == "reads" and not case.elsewhere]
    writing = [name for name, case in COMMANDS.items() if case.store == "writes" and not case.elsewhere]
    wrong = []
    with read_only(searched.home):
        for number, name in enumerate([*reading, *writing]):
            result = run(name, given, forking, f"directory-{number}")
            if name in reading and name not in _WRITE_FILES:
                right = result.code == COMMANDS[name].exit_code
            else:
                lines = result.stderr.splitlines()
                last = lines[-1] if lines else ""
                right = result.code == 1 and last.startswith("Cannot ") and "Traceback" not in result.stderr
                right = right and ("read-only" in last.lower() or (COMMANDS[name].words or "-") in last)
            wrong += [] if right else [(name, result)]
        description = "only in the log" if (store_file.parent / "store.sqlite-wal").exists() else ""
        assert det_json("experiment", "describe", "1")[0]["description"] == description
    assert not wrong, "\n".join(f"{name}: {result}" for name, result in wrong)


def test_a_store_of_an_older_version_is_read_from_a_copy(
    given: dict[str, str], searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from determined.store.databases.migrate import migrate
    from determined.store.databases.sqlite import SqliteDatabase
    from determined.store.open import open_store, opened_database

    old = tmp_path / "old"
    old.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("determined.store.databases.migrate.MIGRATIONS", MIGRATIONS[:-1])
        database = SqliteDatabase(old / "store.sqlite")
        migrate(database)
        database.close()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with read_only(old):
        with opened_database(old / "store.sqlite") as newer:
            assert newer.execute("SELECT version FROM determined_schema") == [(len(MIGRATIONS),)]
        store = open_store(old / "store.sqlite")
        with pytest.raises(StoreReadOnly, match="read-only file system"):
            new_experiment(store, "new")
        store.close()
    with closing(sqlite3.connect(old / "store.sqlite")) as connection:
        assert connection.execute("SELECT version FROM determined_schema").fetchall() == [(len(MIGRATIONS) - 1,)]
    assert list(temporary.iterdir()) == []


def test_a_run_on_a_read_only_store_ends_at_once(tmp_path: Path, data_home: Path) -> None:
    from determined import core

    with opened():
        pass
    with read_only(data_home), pytest.raises((StoreReadOnly, OSError), match=r"[Rr]ead-only file system"):
        with core.init(checkpoint_storage=str(tmp_path / "checkpoints")):
            pass
