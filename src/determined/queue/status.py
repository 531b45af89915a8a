"""The status file of the daemon, which `det queue` shows. It is replaced atomically."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from determined.durable_files import write_atomically
from determined.queue.files import QueueFiles, daemon_start_lock, take_daemon_lock


@dataclass(frozen=True)
class Status:
    """The status of a daemon: its process, the number of its slots, and the slots of each experiment.

    A daemon that is `leaving` is shutting down: it waits for trials that save, and starts no more runners. The names
    are those in the file, which other versions of this library read as well.
    """

    pid: int
    since: float
    slots: int
    running: dict[int, list[int]] = field(default_factory=dict)  # by experiment
    leaving: bool = False


def write_status(files: QueueFiles, status: Status) -> None:
    """Write the status file atomically."""
    # Not durable: no daemon survives a power failure, and its status is not read without it.
    write_atomically(files.status, json.dumps(asdict(status)), durable=False)


def daemon_is_running(files: QueueFiles) -> bool:
    """Return whether a daemon is running, which is the case if the lock is held."""
    # No lock file, no daemon: nothing is created only to look.
    if not files.lock.exists():
        return False
    try:
        # Under the start lock, since probing takes the lock for a moment.
        with daemon_start_lock(files):
            descriptor = take_daemon_lock(files)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return _is_locked(files.lock)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _is_locked(path: Path) -> bool:
    """Return whether a daemon holds the lock; for a read-only file system.

    The lock is probed without `daemon_start_lock`, which needs to write. That is safe, because no daemon can be started
    there.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A shared lock, which a read-only descriptor can take.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_status(files: QueueFiles) -> Status | None:
    """Return the status of the daemon, or None if there is none. A file left by a killed daemon is ignored."""
    return last_status(files) if daemon_is_running(files) else None


def last_status(files: QueueFiles) -> Status:
    """Return the status that a running daemon wrote last, or an empty one if it has just been started.

    Whether the daemon runs is not checked.
    """
    try:
        plain: dict[str, Any] = json.loads(files.status.read_text())
    except (FileNotFoundError, json.JSONDecodeError):  # the daemon has just been started
        return Status(pid=0, since=0.0, slots=0)
    running = {int(number): slots for number, slots in plain.pop("running").items()}
    return Status(**plain, running=running)
