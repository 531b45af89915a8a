"""Staging directories of unfinished checkpoints, each locked by the process that writes it.

The system releases a lock when its process ends, so `collect` can tell abandoned directories from those in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from pathlib import Path

from determined.errors import InvalidCheckpointException

logger = logging.getLogger("determined.checkpoint_storage")

PREFIX = ".staging-"


class Staging:
    """The staging directories in one storage root that this process writes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own: dict[str, int | None] = {}  # descriptor of the lock; None on file systems without locks

    def path(self, storage_id: str) -> Path:
        return self._root / (PREFIX + storage_id)

    def create(self, storage_id: str) -> Path:
        """Create and lock a staging directory."""
        path = self.path(storage_id)
        path.mkdir(mode=0o700)
        lock = _lock(path, wait=True)
        if not path.exists():  # another process's `collect` deleted the directory before it was locked
            return self.create(storage_id)
        self._own[storage_id] = lock
        return path

    def owns(self, storage_id: str) -> bool:
        """Return whether this process created the directory and has not finished it."""
        return storage_id in self._own

    def publish(self, storage_id: str, target: Path) -> None:
        """Rename the staging directory to its final place: the atomic step that makes a checkpoint visible."""
        if os.path.lexists(target):
            raise InvalidCheckpointException(f"a checkpoint {storage_id} exists already in {self._root}")
        os.rename(self.path(storage_id), target)
        self._unlock(storage_id)

    def remove(self, storage_id: str) -> None:
        """Delete a staging directory of this process; those of other processes are left alone."""
        if not self.owns(storage_id):
            return
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(storage_id))
        self._unlock(storage_id)

    def collect(self) -> None:
        """Delete staging directories whose writers have ended."""
        for entry in os.scandir(self._root):
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            if self.owns(entry.name.removeprefix(PREFIX)):
                continue
            lock = _lock(Path(entry.path))
            if lock is None:
                continue
            try:
                logger.info("removing an unfinished checkpoint: %s", entry.path)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(lock)

    def _unlock(self, storage_id: str) -> None:
        lock = self._own.pop(storage_id, None)
        if lock is not None:
            os.close(lock)


def _lock(path: Path, *, wait: bool = False) -> int | None:
    """Lock a directory and return the descriptor.

    Returns None if a running process holds the lock, if the directory was deleted, or on file systems without locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The directory may have been deleted or replaced before the lock was acquired.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except OSError:
        logger.debug("no lock on %s", path, exc_info=True)
    os.close(descriptor)
    return None
