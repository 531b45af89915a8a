"""The directory of a node's actor, with everything that an experiment creates on the node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from pathlib import Path

from determined.machine import this_machine
from determined.paths import data_dir, made_private

SOCKETS = "sockets"  # a link to the directory of the engine's sockets, which need a shorter path


def new_root(experiment: str) -> Path:
    """Create and return a directory for this actor, and delete those that killed actors have left behind.

    An actor holds a lock on its directory. Two of one experiment may exist at once, while the older one is ending.
    """
    # By machine: several may share their home directories, and the locks of one may not be known to the others.
    home = made_private(made_private(data_dir() / "nodes") / this_machine())
    creating = _locked(home, wait=True)
    if creating is None:
        raise OSError(f"{home} was deleted")
    try:
        for path in home.iterdir():
            lock = _locked(path, wait=False)
            if lock is not None:
                with contextlib.suppress(OSError):  # killed before it had sockets
                    shutil.rmtree(os.readlink(path / SOCKETS), ignore_errors=True)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
        root = home / f"{experiment}-{secrets.token_hex(4)}"
        root.mkdir(mode=0o700)
        # Open until this process ends, and not inherited by jobs.
        if _locked(root, wait=False) is None:
            raise OSError(f"{root} was deleted")
    finally:
        os.close(creating)
    return root


def _locked(directory: Path, *, wait: bool) -> int | None:
    """Open and lock a directory; None if another process holds the lock, or if it was deleted or replaced."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # It may have been deleted, and created anew, before the lock was acquired.
        if os.path.samestat(os.fstat(descriptor), os.stat(directory)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
