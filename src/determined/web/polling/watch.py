"""`Watch`: tells in microseconds whether the store has changed, so that a page can ask every second."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from determined.errors import StoreError
from determined.store.databases.base import Database
from determined.store.databases.migrate import version_of
from determined.store.process import Process, may_be_running
from determined.web.connections import Connections, FileState

_SECONDS_BETWEEN_LOOKS = 2.0  # between checks of processes, whose end changes no row


@dataclass(frozen=True)
class Seen:
    """The version of the store, why it cannot be read (or None), and how many processes are training."""

    version: str
    problem: str | None
    running: int


class Watch:
    """Watches the store with a separate connection: SQLite reports to it the changes that other connections make."""

    def __init__(self, connections: Connections, clock: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._clock = clock
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._state: FileState | None = None
        self._known: object = None
        self._number = 0
        self._begin = secrets.token_hex(4)  # versions of different servers differ
        self._running: list[Process] = []
        self._alive = 0
        self._looked = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether `look` waits for nothing: the connection to a file is open, and no other thread uses it."""
        return self._database is not None and not self._connections.is_postgres and not self._lock.locked()

    def look(self) -> Seen:
        """Return the current state of the store; every change of the store gives it another version."""
        with self._lock:
            problem = None
            try:
                stamp = self._stamp()
            except StoreError as error:
                self._close()
                self._connections.close()  # so that the request that follows does not fail on a lost connection
                problem, stamp, self._alive = str(error), None, 0
            known = (stamp, self._state, problem, self._alive)
            if known != self._known:
                self._known = known
                self._number += 1
            return Seen(f"{self._begin}-{self._number}", problem, self._alive)

    def count_change(self) -> None:
        """Increase the version although the store has not changed, because more statistics are available now."""
        with self._lock:
            self._number += 1

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _stamp(self) -> object:
        """Return the database's change stamp; count the running processes after a change, and every few seconds."""
        state = self._connections.file_state()
        if self._database is None or state != self._state:
            self._close()
            self._database, self._state = self._connections.open_database(), state
            self._known = None
        stamp = self._database.change_stamp()
        changed = not isinstance(self._known, tuple) or self._known[0] != stamp
        if changed:
            version_of(self._database)  # raises if a newer version of this library has migrated the store meanwhile
            self._running = _running(self._database)
        if changed or self._clock() - self._looked > _SECONDS_BETWEEN_LOOKS:
            self._looked = self._clock()
            self._alive = sum(map(may_be_running, self._running))
        return stamp

    def _close(self) -> None:
        """Close the connection, if it is open."""
        if self._database is not None:
            self._database.close()
            self._database = None


def _running(database: Database) -> list[Process]:
    """Return the processes of all attempts that have not ended according to the store."""
    found = database.execute("SELECT DISTINCT host, pid, process_started FROM attempts WHERE ended IS NULL")
    return [Process(*row) for row in found]
