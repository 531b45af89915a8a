"""A file with derived curves and statistics, so that a chart of finished trials does not read their reports again.

The file can be deleted at any time. An entry is valid for one version of a trial's reports: the store changes the
trial's stamps in the transaction that changes its reports, and no stamp is used twice. A file that cannot be used
(no space, no permission) is replaced by memory: `trouble` says what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from determined.curves.cache_file import empty, file_identity, is_large, open_file, open_memory
from determined.curves.chart_data import Axis
from determined.curves.derive import Curve
from determined.curves.encoding import decode, encode
from determined.curves.read import Key
from determined.curves.summary import Statistics
from determined.paths import data_dir_path
from determined.store.databases.base import few_enough
from determined.store.databases.sqlite_errors import is_busy, is_full

_VERSION_COLUMNS = "t.changes, t.rewrites, t.settled_step, t.started, t.anchor_step, t.anchor_time"
_SUMMARY = "summary"  # stored in place of an axis, in the row with the version of a trial's statistics


@dataclass(frozen=True)
class Version:
    """A version of a trial's reports.

    `changes` is replaced with every change, `rewrites` only if reports before the last step have changed. Curves are
    settled up to, but not including, `settled_step`: later reports can extend them, but not change them. `started` is
    the beginning of the time axis. `anchor_step` is the last settled step that has reports, `anchor_time` the time of
    the latest of them: they reveal that the store was replaced by a copy in which the trial continued differently.
    """

    changes: int
    rewrites: int
    settled_step: int
    started: float
    anchor_step: int
    anchor_time: float


@dataclass(frozen=True)
class SettledCurve:
    """The part of a curve that later reports cannot change. The statistics are None if it has no values."""

    curve: Curve
    statistics: Statistics | None


@dataclass(frozen=True)
class CachedCurve:
    """A cached curve: the part that was settled when it was cached, and the whole curve."""

    settled: SettledCurve
    whole: Curve
    statistics: Statistics | None


@dataclass(frozen=True)
class Entry:
    """The curves of all metrics of a trial over one axis."""

    trial_id: int
    version: Version
    curves: dict[Key, CachedCurve]


def default_path() -> Path:
    """Return the path of the cache file that all programs of this user share."""
    return data_dir_path() / "curves.sqlite"  # not created here: that may fail, and charts work without it


class CurveCache:
    """The cache file of curves. Several threads may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None  # device and inode of the opened file; None for memory
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self.trouble: str | None = None  # why the file is not used

    def of_metric(
        self, store: str, trial_ids: Sequence[int], axis: Axis, key: Key
    ) -> dict[int, tuple[Version, Curve | None]]:
        """Return the cached curves of one metric by trial id, with versions; a curve is None if not reported."""
        # Version and curve in one statement: another process may replace an entry at any time.
        rows = self._of_trials(
            f"SELECT {_VERSION_COLUMNS}, t.trial, c.whole FROM trials t "
            "LEFT JOIN curves c ON c.store = t.store AND c.trial = t.trial AND c.axis = t.axis "
            "AND c.metric_group = ? AND c.name = ? WHERE t.store = ? AND t.axis = ?",
            [*key, store, axis],
            trial_ids,
        )
        found = dict[int, tuple[Version, Curve | None]]()
        for *version, trial_id, whole in rows:
            with contextlib.suppress(ValueError):  # what is damaged counts as not cached
                found[trial_id] = Version(*version), None if whole is None else decode(whole)
        return found

    def of_trial(self, store: str, trial_id: int, axis: Axis) -> tuple[Version, dict[Key, SettledCurve]] | None:
        """Return the settled parts of all curves of a trial with their version; None if they are not cached."""
        rows = self._of_trials(
            f"SELECT {_VERSION_COLUMNS}, c.metric_group, c.name, c.settled_statistics, c.settled FROM trials t "
            "LEFT JOIN curves c ON c.store = t.store AND c.trial = t.trial AND c.axis = t.axis "
            "WHERE t.store = ? AND t.axis = ?",
            [store, axis],
            [trial_id],
        )
        found = dict[Key, SettledCurve]()
        for *_, group, name, statistics, settled in rows:
            if group is not None:
                try:
                    known = None if statistics is None else Statistics(*json.loads(statistics))
                    found[group, name] = SettledCurve(decode(settled), known)
                except (ValueError, TypeError):  # damaged
                    return None
        return (Version(*rows[0][:6]), found) if rows else None

    def summarized(self, store: str, trial_ids: Sequence[int]) -> dict[int, int]:
        """Return, by trial id, the stamp (`changes`) of the reports whose statistics are cached."""
        select = "SELECT t.trial, t.changes FROM trials t WHERE t.store = ? AND t.axis = ?"
        return dict(self._of_trials(select, [store, _SUMMARY], trial_ids))

    def summaries(
        self, store: str, trial_ids: Sequence[int], keys: Sequence[Key] | None = None
    ) -> Iterator[tuple[int, int, Key, Statistics | None]]:
        """Yield trial id, version and statistics of each metric, or of some metrics, that are cached for trials.

        The statistics are None where the file is damaged.
        """
        select = "SELECT t.trial, t.changes, t.metric_group, t.name, t.statistics FROM summaries t WHERE t.store = ?"
        if keys is None:
            rows = self._of_trials(select, [store], trial_ids)
        else:
            one_metric = f"{select} AND t.metric_group = ? AND t.name = ?"
            rows = [row for key in keys for row in self._of_trials(one_metric, [store, *key], trial_ids)]
        for trial, changes, group, name, statistics in rows:
            try:
                known = Statistics(*json.loads(statistics))
            except (ValueError, TypeError):
                known = None
            yield trial, changes, (group, name), known

    def write(self, store: str, axis: Axis, entries: Sequence[Entry]) -> None:
        """Replace the entries of trials for an axis, and their statistics, in one transaction."""
        rows = [_rows_of(store, axis, entry) for entry in entries]
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for entry, (of_curves, of_summaries) in zip(entries, rows, strict=True):
                trial = (store, entry.trial_id)
                connection.execute("DELETE FROM curves WHERE store = ? AND trial = ? AND axis = ?", (*trial, axis))
                connection.execute("DELETE FROM summaries WHERE store = ? AND trial = ?", trial)
                for part in (axis, _SUMMARY):
                    connection.execute(
                        "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (*trial, part, *astuple(entry.version)),
                    )
                connection.executemany("INSERT INTO curves VALUES (?, ?, ?, ?, ?, ?, ?, ?)", of_curves)
                connection.executemany("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?)", of_summaries)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _of_trials(self, select: str, values: list[object], trial_ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the rows of trials, with a limited number of ids in each statement."""
        return [
            row
            for chunk in few_enough(trial_ids)
            for row in self._execute(f"{select} AND t.trial IN ({', '.join('?' * len(chunk))})", [*values, *chunk])
        ]

    def _execute(self, statement: str, values: list[object]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        with self._opened() as connection:
            found += connection.execute(statement, values)
        return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, locked against other threads. An error of SQLite ends the block and is handled here."""
        with self._lock:
            connection = self._connect()
            try:
                yield connection
            except sqlite3.Error as error:
                self._recover(connection, error)

    def _recover(self, connection: sqlite3.Connection, error: sqlite3.Error) -> None:
        """Make the cache usable after an error, if that is possible. What was to be read counts as not cached."""
        if type(error) is sqlite3.DatabaseError:  # the file is damaged; other errors are subclasses
            self.close()
            try:
                self._path.unlink(missing_ok=True)
            except OSError:  # of a directory that cannot be written, in which it would stay damaged
                self._give_up(error)
            return
        if connection.in_transaction:
            connection.rollback()
        if self._file is not None and error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            self.close()  # other tables, of a program of another version: they are created when the file is opened
            return
        if is_busy(error):
            return  # another process writes for long
        if is_full(error) and is_large(connection):
            empty(connection)
        else:
            self._give_up(error)

    def _connect(self) -> sqlite3.Connection:
        """Return the connection to the file; to a database in memory if the file cannot be used."""
        if self._file is not None and file_identity(self._path) != self._file:
            self.close()  # another process has deleted the file, and may have created a new one
        if self._connection is None:
            try:
                if self.trouble is None:
                    self._connection = open_file(self._path)
                    self._file = file_identity(self._path)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
            if self._connection is None:
                self._file = None
                self._connection = open_memory()
        return self._connection

    def _give_up(self, error: Exception) -> None:
        """Use memory instead of the file from now on, and keep the reason in `trouble`."""
        self.trouble = f"charts are not cached: {self._path}: {error}"
        self.close()


def _rows_of(store: str, axis: Axis, entry: Entry) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows of an entry: of its curves, and of their statistics."""
    of_curves = [
        (
            *(store, entry.trial_id, axis, *key, _text(curve.settled.statistics)),
            *(encode(curve.settled.curve), encode(curve.whole)),
        )
        for key, curve in entry.curves.items()
    ]
    of_summaries = [
        (store, *key, entry.trial_id, entry.version.changes, _text(curve.statistics))
        for key, curve in entry.curves.items()
        if curve.statistics is not None
    ]
    return of_curves, of_summaries


def _text(statistics: Statistics | None) -> str | None:
    return None if statistics is None else json.dumps(statistics)
