"""The SQLite file of the cache: its tables, and how it is opened, emptied and replaced."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

_VERSION = 3  # of the tables and of the encoding; a file of another version is emptied
_PAGE_BYTES = 4096
_MOST_BYTES = 2**28  # then the file is emptied, and filled again within seconds
_MOST_BYTES_IN_MEMORY = 2**26
_BUSY_SECONDS = 2.0

# A summary is found by metric: a table of runs shows few metrics of many trials.
_TABLES = """
CREATE TABLE trials (
    store TEXT, trial INTEGER, axis TEXT, changes INTEGER, rewrites INTEGER, settled_step INTEGER, started REAL,
    anchor_step INTEGER, anchor_time REAL,
    PRIMARY KEY (store, trial, axis)
) WITHOUT ROWID;
CREATE TABLE curves (
    store TEXT, trial INTEGER, axis TEXT, metric_group TEXT, name TEXT, settled_statistics TEXT,
    settled BLOB, whole BLOB,
    PRIMARY KEY (store, trial, axis, metric_group, name)
) WITHOUT ROWID;
CREATE TABLE summaries (
    store TEXT, metric_group TEXT, name TEXT, trial INTEGER, changes INTEGER, statistics TEXT,
    PRIMARY KEY (store, metric_group, name, trial)
) WITHOUT ROWID;
CREATE INDEX summaries_by_trial ON summaries (store, trial);
"""


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_file(path: Path) -> sqlite3.Connection:
    """Open the cache file, or create it with permissions for its owner only. A damaged file is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for last in (False, True):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _set_up(connection, _MOST_BYTES)
        except sqlite3.OperationalError:
            connection.close()
            raise
        except sqlite3.DatabaseError:
            connection.close()
            if last:
                raise
            path.unlink(missing_ok=True)
        else:
            return connection
    raise AssertionError("one of two attempts returns or raises")


def open_memory() -> sqlite3.Connection:
    """Return a database in memory with the same tables, to be used instead of a file that cannot be used."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _set_up(connection, _MOST_BYTES_IN_MEMORY)
    return connection


def _set_up(connection: sqlite3.Connection, most_bytes: int) -> None:
    """Create the tables; those of another version are dropped. Another process may do this at the same time."""
    # Rows lost in a power failure are derived again. The journal stays the default: in WAL mode the names of two more
    # files would be shared with a file that replaces a deleted one.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA max_page_count = {most_bytes // _PAGE_BYTES}")
    if connection.execute("PRAGMA user_version").fetchone() == (_VERSION,):
        return
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f'DROP TABLE "{table}"')
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def is_large(connection: sqlite3.Connection) -> bool:
    """Return whether the file has half of its maximum size: then its limit was reached, and the disk is not full."""
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    ((most,),) = connection.execute("PRAGMA max_page_count").fetchall()
    return bool(pages > most // 2)


def empty(connection: sqlite3.Connection) -> None:
    """Delete all entries of the cache."""
    for table in ("summaries", "curves", "trials"):
        connection.execute(f"DELETE FROM {table}")
