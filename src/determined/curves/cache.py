"""A file with derived curves, so that a chart of finished trials does not read their reports again.

The file can be deleted at any time. An entry is valid for one version of a trial's reports: the store changes the
trial's stamps in the transaction that changes its reports, and a stamp never returns. A file that cannot be used
(no space, no permission, damaged) costs time, never a result: `trouble` says what is wrong.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined.curves.derive import Axis, Curve
from determined.curves.encoding import decode, encode
from determined.curves.read import Key
from determined.curves.thin import Points

_VERSION = 1  # of the tables and of the encoding; a file of another version is emptied
_MOST_BYTES = 2**28  # an emptied file is filled again within seconds
_BUSY_SECONDS = 2.0

_TABLES = """
CREATE TABLE trials (
    store TEXT, trial INTEGER, axis TEXT, changes INTEGER, rewrites INTEGER, settled_step INTEGER,
    PRIMARY KEY (store, trial, axis)
) WITHOUT ROWID;
CREATE TABLE curves (
    store TEXT, trial INTEGER, axis TEXT, metric_group TEXT, name TEXT, settled BLOB, tail BLOB,
    PRIMARY KEY (store, trial, axis, metric_group, name)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Version:
    """A version of a trial's reports.

    `changes` is replaced with every change, `rewrites` only if reports before the last step have changed. Curves are
    settled up to, but not including, `settled_step`: later reports can extend them, but not change them.
    """

    changes: int
    rewrites: int
    settled_step: int


@dataclass(frozen=True)
class CachedCurve:
    """A curve in two parts: what was settled when it was cached, and the points after that."""

    settled: Curve
    tail: Points


class CurveCache:
    """The cache file of curves. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.trouble: str | None = None  # why the file is not used

    def versions(self, store: str, trial_ids: Iterable[int], axis: Axis) -> dict[int, Version]:
        """Return the cached versions of these trials' reports, by trial id."""
        ids = list(trial_ids)
        rows = self._execute(
            f"SELECT trial, changes, rewrites, settled_step FROM trials WHERE store = ? AND axis = ? "
            f"AND trial IN ({', '.join('?' * len(ids))})",
            [store, axis, *ids],
        )
        return {trial: Version(*more) for trial, *more in rows}

    def curves(
        self, store: str, trial_id: int, axis: Axis, keys: Iterable[Key] | None
    ) -> dict[Key, CachedCurve] | None:
        """Return cached curves of a trial, those of some metrics or all; None if they cannot be read."""
        select = "SELECT metric_group, name, settled, tail FROM curves WHERE store = ? AND trial = ? AND axis = ?"
        if keys is None:
            rows = self._execute(select, [store, trial_id, axis])
        else:
            rows = [
                row
                for key in keys
                for row in self._execute(f"{select} AND metric_group = ? AND name = ?", [store, trial_id, axis, *key])
            ]
        if self.trouble is not None:
            return None
        try:
            return {
                (group, name): CachedCurve(decode(settled), _points(decode(tail)))
                for group, name, settled, tail in rows
            }
        except ValueError as error:
            self._give_up(error)
            return None

    def write(self, store: str, trial_id: int, axis: Axis, version: Version, curves: dict[Key, CachedCurve]) -> None:
        """Replace the entry of a trial."""
        of_trial = (store, trial_id, axis)
        connection = self._open()
        if connection is None:
            return
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM curves WHERE store = ? AND trial = ? AND axis = ?", of_trial)
                connection.execute(
                    "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?)",
                    (*of_trial, version.changes, version.rewrites, version.settled_step),
                )
                connection.executemany(
                    "INSERT INTO curves VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(*of_trial, *key, encode(curve.settled), encode(curve.tail)) for key, curve in curves.items()],
                )
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, statement: str, values: list[object]) -> list[tuple[Any, ...]]:
        connection = self._open()
        if connection is None:
            return []
        try:
            return connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return []

    def _open(self) -> sqlite3.Connection | None:
        if self._connection is None and self.trouble is None:
            try:
                self._connection = _opened(self._path)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
        return self._connection

    def _give_up(self, error: Exception) -> None:
        self.trouble = f"charts are not cached: {self._path}: {error}"
        self.close()


def _points(curve: Curve) -> Points:
    if not isinstance(curve, Points):
        raise ValueError("a level where points were expected")
    return curve


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file, created for its owner only; one of another version, damaged, or too large is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _MOST_BYTES:
        _remove(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # What is lost in a power failure is derived again.
        connection.execute("PRAGMA synchronous = OFF")
        if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            _create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    """Create the tables, in the place of those of another version. Another process may do the same."""
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f'DROP TABLE "{table}"')
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _remove(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)
