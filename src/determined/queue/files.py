"""The files of a queue daemon: two locks, its status and its log."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined import paths
from determined.errors import StoreError
from determined.file_locks import try_lock
from determined.optional import require
from determined.store.databases import location as places
from determined.store.process import this_user

# Spellings of the same server; a socket counts as this machine, too.
_THIS_MACHINE = ("", "localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class QueueFiles:
    """The paths of the files for one user, machine and store. Other machines may share the directory."""

    directory: Path
    name: str

    @classmethod
    def of(cls, store_place: str) -> QueueFiles:
        """Return the files for a store. Each machine has its own daemon, so the name includes the host."""
        # Links and spellings of one store must lead to the same daemon.
        place = database_of(store_place) if places.is_postgres(store_place) else os.path.realpath(store_place)
        # Hashed, because a path or a URL is no file name, and a URL may hold a user name.
        name = hashlib.sha256(f"{socket.gethostname()}\0{place}".encode()).hexdigest()[:16]
        return cls(paths.queue_dir(), name)  # not created before a write, because the disk may be read-only

    @property
    def start_lock(self) -> Path:
        """Return the path of the lock that serializes starting and ending a daemon; see `daemon_start_lock`."""
        # The suffix stays, so that processes of an earlier version exclude those of this one.
        return self.directory / f"{self.name}.door"

    @property
    def lock(self) -> Path:
        """Return the path of the lock that the daemon holds.

        The kernel releases it when the process ends in any way.
        """
        return self.directory / f"{self.name}.lock"

    @property
    def status(self) -> Path:
        """Return the path of the daemon's status file."""
        return self.directory / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """The log file of the daemon."""
        return self.directory / f"{self.name}.log"


@contextmanager
def daemon_start_lock(files: QueueFiles) -> Iterator[None]:
    """Hold the lock that serializes looking for the daemon and its decision to end.

    A process that added an experiment looks for a daemon under this lock, and the daemon checks the queue for the last
    time and ends under it. Otherwise an experiment added between that check and the end would not be run.
    """
    paths.made_private(paths.queue_dir())
    # O_CLOEXEC: a daemon that inherited the descriptor would keep the lock.
    descriptor = os.open(files.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def take_daemon_lock(files: QueueFiles) -> int | None:
    """Take the daemon's lock and return the open file that holds it, or None if there is a daemon.

    A process that inherits the file descriptor holds the lock as well. Call this inside `daemon_start_lock`: a short
    probe of the lock could otherwise make another process believe that there is a daemon.
    """
    paths.made_private(paths.queue_dir())
    descriptor = try_lock(files.lock)
    if descriptor is not None:
        files.status.unlink(missing_ok=True)  # left by a daemon that was killed
    return descriptor


def database_of(url: str) -> str:
    """Return the server, port and database name of a URL, without user, password and connection options."""
    psycopg: Any = require("psycopg", extra="postgres", purpose=f"the store {places.shown(url)}")
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:  # the driver's message is not shown because it may repeat part of the password
        raise StoreError(f"the URL of the store {places.shown(url)} is invalid") from None
    host = str(found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST", ""))
    if host in _THIS_MACHINE or host.startswith(("/", "@")):  # the directory or abstract name of a Unix socket
        host = "localhost"
    # libpq reads the same variables if the URL has no value.
    port = found.get("port") or os.environ.get("PGPORT") or 5432
    user = found.get("user") or os.environ.get("PGUSER") or this_user()
    # libpq's default is the database with the name of the user.
    return f"{host.lower()}:{port}/{found.get('dbname') or os.environ.get('PGDATABASE') or user}"
