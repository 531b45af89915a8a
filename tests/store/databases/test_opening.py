"""Opening a store: many processes at once, what is rejected, and which secrets are never shown."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from determined import core, paths
from determined.errors import StoreError, StoreUnavailable
from determined.store.databases import location as places
from determined.store.databases.schema import MIGRATIONS, VERSION_TABLE
from determined.store.open import open_store, patience
from tests.helpers.postgres import PASSWORD, PostgresServer
from tests.helpers.ranks import free_port
from tests.store.rows import begin

OPEN_AND_BEGIN = """
import sys
from determined.store.open import open_store
from tests.store.rows import begin
sys.stdin.readline()
store = open_store(sys.argv[1])
begin(store)
store.close()
"""


def test_eight_processes_open_a_new_store_at_once(place: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AND_BEGIN, place],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        for _ in range(8)
    ]
    errors = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    for process in processes:
        errors.append(process.communicate(timeout=60)[1])
    assert [process.returncode for process in processes] == [0] * 8, errors
    store = open_store(place)
    assert sorted(run.trial_id for run in store.runs()) == list(range(1, 9))
    store.close()


def test_a_store_of_a_newer_version_is_refused(place: str) -> None:
    store = open_store(place)
    store._database.execute(f"UPDATE {VERSION_TABLE} SET version = 99")
    store.close()
    with pytest.raises(StoreError, match=rf"newer version.*99.*knows {len(MIGRATIONS)}.*DET_STORE") as caught:
        open_store(place)
    assert places.shown(place) in str(caught.value)


def test_a_store_of_an_older_version_is_brought_up_to_date(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(place)
    begin(store)
    store.close()
    monkeypatch.setattr(
        "determined.store.databases.migrate.MIGRATIONS", [*MIGRATIONS, "ALTER TABLE trials ADD COLUMN nickname TEXT"]
    )
    store = open_store(place)
    assert len(store.runs()) == 1
    assert store._database.execute("SELECT nickname FROM trials") == [(None,)]
    store.close()


def test_a_migration_that_fails_leaves_everything_as_it_was(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            "determined.store.databases.migrate.MIGRATIONS", [*MIGRATIONS, "CREATE TABLE extra (id TEXT); NONSENSE"]
        )
        with pytest.raises(StoreError, match="NONSENSE"):
            open_store(place)
    store = open_store(place)
    begin(store)
    assert "extra" not in store._database.tables()
    store.close()


@pytest.mark.parametrize(
    "content", [b"just a text file, longer than any header of a database is" * 9, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=f"{path} cannot be used: "):
        open_store(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match=r"theirs\.db holds the data of another program \(songs\).*DET_STORE"):
        open_store(path)
    assert path.read_bytes() == content


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = open_store(path)
    begin(store)
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\x5a" * (len(whole) - 100))
    with pytest.raises(StoreError, match=f"{path} cannot be used: .*malformed"):
        open_store(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match=f"{path} cannot be used: .*malformed"):
        open_store(path).runs()


OPEN_AS_SOMEBODY = """
import os, sys
# Imported before the user changes: another user may not be able to read the interpreter's modules.
import determined.store.store, determined.store.sql.requests, determined.store.sql.runs
import determined.store.databases.sqlite
from determined.store.open import open_store
if os.getuid() == 0:  # root may write everywhere
    os.setuid(65534)
store = open_store(sys.argv[1])
print(len(store.runs()))
store.add_request(1, "pause")
"""


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    store = open_store(closed / "store.sqlite")
    begin(store)
    store.close()
    (closed / "store.sqlite").chmod(0o644)
    closed.chmod(0o555)
    for directory in [*closed.parents, closed]:  # pytest's own directories are closed to others
        if directory.stat().st_uid == os.getuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o055)
    for name in ("store.sqlite", "other.sqlite", "sub/store.sqlite"):
        done = subprocess.run(
            [sys.executable, "-c", OPEN_AS_SOMEBODY, closed / name],
            capture_output=True,
            text=True,
            timeout=60,
        )
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        is_there = name == "store.sqlite"  # now it can be read, because all users may read the file
        assert done.stdout == ("1\n" if is_there else "")
        kind, what = ("StoreReadOnly", "is read-only") if is_there else ("StoreError", "cannot be used: ")
        assert last.startswith(f"determined.errors.{kind}: the store {closed / name} {what}"), last
        assert "no permission" in last or not is_there
    closed.chmod(0o755)


def test_the_store_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.sqlite"
    store = open_store(path)
    begin(store)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_which_store_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_store().place == str(paths.data_dir() / "store.sqlite")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DET_STORE", "here.sqlite")
    assert open_store().place == str(tmp_path / "here.sqlite")
    assert open_store("there.sqlite").place == str(tmp_path / "there.sqlite")
    monkeypatch.setenv("DET_STORE", "")
    assert open_store().place == str(paths.data_dir() / "store.sqlite")


@pytest.mark.parametrize("name", ["mysql://me:s3cr3t@host/db", "sqlite:///x", "a\0b"])
def test_other_names_are_refused_before_the_run_begins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"cannot name a store.*postgresql://") as caught:
        open_store(name)
    assert "s3cr3t" not in str(caught.value)
    monkeypatch.setattr(paths, "store_place", lambda: name)
    with pytest.raises(StoreError, match="cannot name a store"):
        core.init()
    assert not (paths.data_dir() / "runs").exists()


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_patience_is_a_number_of_seconds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience() == 300
    monkeypatch.setenv("DET_STORE_PATIENCE", text)
    with pytest.raises(StoreError, match=f"DET_STORE_PATIENCE.*'{text}'"):
        patience()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cr3t@host:5432/db", "postgresql://me:********@host:5432/db"),
        ("postgresql://me:s3cr3t@host/db?sslmode=require&password=s3cr3t", "postgresql://me:********@host/db"),
        ("postgresql://me:s3/cr3t?s3@cr3t@host/db", "postgresql://me:********@host/db"),
        ("postgresql:///db?user=me&password=s3cr3t", "postgresql:///db"),
        ("postgresql://host/db?password=s3cr3t@s3cr3t", "postgresql://host:********@s3cr3t"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("/a/path@with:colons?", "/a/path@with:colons?"),
    ],
)
def test_how_a_store_is_shown(url: str, shown: str) -> None:
    assert places.shown(url) == shown


def test_a_password_is_never_shown(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    good = postgres.new_database()
    store = open_store(good)
    said = [store.place, repr(store), repr(store._database), str(vars(store))]
    store.close()
    wrong = [
        good.replace("/det:", "/nobody:"),
        good.replace("s3cr3t", "wr0ng-s3cr3t"),
        good.replace("/test_", "/unknown_"),
        good.replace("%2F", "/"),
        good + "?nonsense=1",
        f"postgresql://det:s3cr3t@127.0.0.1:{free_port()}/x",
        "postgresql://det:s3cr3t@127.0.0.1:notaport/x",
    ]
    for url in wrong:
        with pytest.raises(StoreError) as caught:
            open_store(url)
        said += traceback.format_exception(caught.value)
        assert str(caught.value).startswith("the store postgresql://")
    for text in [*said, caplog.text]:
        assert "s3cr3t" not in text
        assert PASSWORD not in text


def test_a_server_that_is_away_may_come_back(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot be reached now.*refused"):
        open_store(f"postgresql://det@127.0.0.1:{free_port()}/x")


def test_a_missing_driver_names_the_extra() -> None:
    program = (
        "import sys\nsys.modules['psycopg'] = None\nfrom determined.store.open import open_store\n"
        "open_store('postgresql://me:s3cr3t@127.0.0.1/x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert 'pip install "determined-pytorch[postgres]"' in done.stderr
    assert "s3cr3t" not in done.stderr.replace(program, "")
