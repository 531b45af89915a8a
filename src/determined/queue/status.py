"""What the daemon says of itself, for people who look: a small file, replaced whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from determined.queue.files import QueueFiles, at_the_door, locked


@dataclass(frozen=True)
class Status:
    """A living daemon: its process, the slots that it shares out, and who has which of them.

    One that is `leaving` waits for trials that save, and starts nothing any more.
    """

    pid: int
    since: float
    slots: int
    running: dict[int, list[int]] = field(default_factory=dict)  # by experiment
    leaving: bool = False


def write_status(files: QueueFiles, status: Status) -> None:
    draft = files.status.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(asdict(status), file)
    os.replace(draft, files.status)


def daemon_lives(files: QueueFiles) -> bool:
    """Whether a process serves the queue: it holds the lock."""
    if not files.lock.exists():
        return False
    try:
        with at_the_door(files):
            descriptor = locked(files)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return _is_locked(files.lock)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _is_locked(path: Path) -> bool:
    """The same on a read-only file system, where nobody can start a daemon that this short look would disturb."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_status(files: QueueFiles) -> Status | None:
    """None when there is no daemon; what one left behind that was killed does not count."""
    return last_status(files) if daemon_lives(files) else None


def last_status(files: QueueFiles) -> Status:
    """Of a daemon that is known to live."""
    try:
        plain: dict[str, Any] = json.loads(files.status.read_text())
    except (FileNotFoundError, json.JSONDecodeError):  # it has only just begun
        return Status(pid=0, since=0.0, slots=0)
    running = {int(number): slots for number, slots in plain.pop("running").items()}
    return Status(**plain, running=running)
