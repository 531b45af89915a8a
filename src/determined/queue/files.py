"""Where the daemon of a store keeps what it needs: a lock, a door to it, what it says of itself, and its log."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from determined import paths
from determined.queue.database import database_of
from determined.store import place as places


@dataclass(frozen=True)
class QueueFiles:
    """Of one user, one machine and one store; other machines may see the same directory."""

    directory: Path
    name: str

    @classmethod
    def of(cls, store_place: str) -> QueueFiles:
        place = database_of(store_place) if places.is_postgres(store_place) else os.path.realpath(store_place)
        name = hashlib.sha256(f"{socket.gethostname()}\0{place}".encode()).hexdigest()[:16]
        return cls(paths.queue_dir(), name)  # made when something is written: the disk may be read-only

    @property
    def door(self) -> Path:
        return self.directory / f"{self.name}.door"

    @property
    def lock(self) -> Path:
        """Whoever has it locked is the daemon; the system unlocks it when the process is gone, however it ended."""
        return self.directory / f"{self.name}.lock"

    @property
    def status(self) -> Path:
        return self.directory / f"{self.name}.json"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"


@contextmanager
def at_the_door(files: QueueFiles) -> Iterator[None]:
    """One at a time: whoever has added an experiment and looks for the daemon, and the daemon that finds nothing to do.

    So none is overlooked: the daemon's last look at the queue and its end are one, seen from here.
    """
    descriptor = _opened(files.door)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def locked(files: QueueFiles) -> int | None:
    """An open file that holds the daemon's lock, also in a process that inherits it; None if there is a daemon.

    To be asked at the door: even a short look could keep somebody else from starting a daemon.
    """
    descriptor = _opened(files.lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    files.status.unlink(missing_ok=True)  # of a daemon that was killed
    return descriptor


def _opened(path: Path) -> int:
    paths.made_private(paths.queue_dir())
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
