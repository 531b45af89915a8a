"""Exclusive locks on files, which the system releases when the process that holds them ends for any reason."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """Lock a file, which is created if necessary, and return its open descriptor; closing it releases the lock.

    Returns None if another process holds the lock.
    """
    # Only its owner may open the file. O_CLOEXEC: a child that inherited the descriptor would keep the lock after this
    # process has ended.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    # BaseException: an interrupted command must not keep the descriptor, and with it the lock.
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
