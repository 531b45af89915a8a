"""Connections of the server to the store: a pool of connections for reading, and a new one for each change.

A store may be replaced, deleted or restarted while the page is open. Connections are opened again after the file was
replaced, and after every error.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from determined.errors import NotFoundException, StoreError
from determined.store.databases import location
from determined.store.databases.base import Database
from determined.store.databases.migrate import version_of
from determined.store.databases.read_only_file import is_unwritable
from determined.store.databases.schema import MIGRATIONS
from determined.store.databases.snapshot import consistent_snapshot
from determined.store.open import open_database, open_store
from determined.store.store import Store

FileState = tuple[int, ...]

# The maximum rate at which a store that cannot be written is copied after changes: without it the copies of a large
# store that changes all the time would keep the machine busy.
_COPIED_BYTES_A_SECOND = 10e6


@dataclass(frozen=True)
class _Copied:
    """The state in which a store was copied: by the clock of the server, and in seconds since the epoch."""

    state: FileState
    at: float
    time: float


class Connections:
    """The connections to one store. They are opened when they are needed, so the store does not have to exist yet."""

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = place
        self.copied_at: float | None = None
        """When the store was copied, if this user cannot write it and it has changed since; otherwise None."""
        self._clock = clock
        self._copied: _Copied | None = None
        self.is_postgres = location.is_postgres(place)
        self._idle: list[tuple[Database, FileState | None]] = []
        self._lock = threading.Lock()

    @property
    def shown_place(self) -> str:
        """The place of the store for messages, without a password."""
        return location.shown(self.place)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Yield the store on a read-only connection that no other thread uses; it is closed if the store fails.

        All queries of the block see one snapshot of the store, even if another process deletes rows meanwhile.
        Connections are not bound to threads: idle threads of the server end, and their connections would stay open.
        """
        state = self.file_state()
        database = self._take(state) or self.open_database()
        try:
            with consistent_snapshot(database):
                yield Store(database)
        except NotFoundException:
            self._give_back(database, state)
            raise
        except StoreError:
            database.close()
            self.close()  # after a restart of PostgreSQL the idle connections are lost as well
            raise
        except BaseException:
            self._give_back(database, state)
            raise
        self._give_back(database, state)

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Yield the store on a new connection that can write; it is closed at the end of the block."""
        if self.file_state() is None and not self.is_postgres:
            raise missing(self.place)
        store = open_store(self.place)
        try:
            yield store
        finally:
            store.close()

    def file_state(self) -> FileState | None:
        """Return identity, size and time of the store's file; None if it does not exist, and for PostgreSQL."""
        if self.is_postgres:
            return None
        try:
            status = os.stat(self.place)
        except OSError:
            return None
        # Size and time, because `cp` writes another store into the same file, which open connections do not notice.
        # Ordinary changes go to the write-ahead log: they reach the file, and cost a new connection, only every few
        # megabytes.
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if not is_unwritable(self.place):
            self.copied_at = None
            return state
        # A store that cannot be written is read from a copy, or without locks: changes are seen after opening it again.
        return self._state_to_copy((*state, *_log_state(self.place)))

    def _state_to_copy(self, state: FileState) -> FileState:
        """Return the state that is to be shown: the present one, or that of a copy which is not old enough."""
        copied, now = self._copied, self._clock()
        size = sum(state[2::2])  # of the file and of its log
        if (
            copied is None
            or copied.state[:2] != state[:2]  # another file
            or (copied.state != state and now - copied.at >= size / _COPIED_BYTES_A_SECOND)
        ):
            copied = self._copied = _Copied(state, now, time.time())
        self.copied_at = None if copied.state == state else copied.time
        return copied.state

    def open_database(self) -> Database:
        """Open a connection for reading. Tables of an older version are migrated first, as by every command."""
        if not self.is_postgres and not os.path.exists(self.place):
            raise missing(self.place)
        database = open_database(self.place, read_only=True)
        try:
            is_current = version_of(database) == len(MIGRATIONS)
        except BaseException:
            database.close()
            raise
        if is_current:
            return database
        database.close()
        open_store(self.place).close()
        return open_database(self.place, read_only=True)

    def close(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for database, _ in idle:
            database.close()

    def _take(self, state: FileState | None) -> Database | None:
        """Return an idle connection to the current file, or None; idle connections to an earlier file are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                database, known = self._idle.pop()
            if known == state:
                return database
            database.close()

    def _give_back(self, database: Database, state: FileState | None) -> None:
        """Return a connection to the pool of idle ones."""
        with self._lock:
            self._idle.append((database, state))


def missing(place: str) -> StoreError:
    """Return the error for a store that does not exist."""
    return StoreError(f"there is no store at {place}: it was deleted or moved, or nothing was recorded yet")


def _log_state(place: str) -> FileState:
    """Return size and time of SQLite's write-ahead log; empty if there is none."""
    try:
        status = os.stat(f"{place}-wal")
    except OSError:
        return ()
    return (status.st_size, status.st_mtime_ns)
