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

PREFIX = ".staging-"  # no id begins with a dot, so a staging directory is never taken for a checkpoint


class Staging:
    """The staging directories in one storage root that this process writes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own: dict[str, int | None] = {}  # descriptor of the lock; None on file systems without locks

    def path(self, checkpoint_id: str) -> Path:
        """Return the hidden directory in which a checkpoint is written."""
        return self._root / (PREFIX + checkpoint_id)

    def create(self, checkpoint_id: str) -> Path:
        """Create and lock a staging directory."""
        path = self.path(checkpoint_id)
        # Fails if the directory exists, which would be that of another process.
        path.mkdir(mode=0o700)
        # Waits, because `collect` of another process may have locked the directory since it was created.
        lock = _lock(path, wait=True)
        if not path.exists():  # another process's `collect` deleted the directory before it was locked
            return self.create(checkpoint_id)
        self._own[checkpoint_id] = lock
        return path

    def owns(self, checkpoint_id: str) -> bool:
        """Return whether this process created the directory and has not finished it."""
        return checkpoint_id in self._own

    def publish(self, checkpoint_id: str, target: Path) -> None:
        """Rename the staging directory to its final place: the atomic step that makes a checkpoint visible."""
        # A rename would silently replace an empty directory of that name.
        if os.path.lexists(target):
            raise InvalidCheckpointException(f"a checkpoint {checkpoint_id} exists already in {self._root}")
        os.rename(self.path(checkpoint_id), target)
        # After the rename: until then the lock protects the directory from `collect`.
        self._unlock(checkpoint_id)

    def remove(self, checkpoint_id: str) -> None:
        """Delete a staging directory of this process; those of other processes are left alone."""
        if not self.owns(checkpoint_id):
            return
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(checkpoint_id))
        self._unlock(checkpoint_id)

    def collect(self) -> None:
        """Delete staging directories whose writers have ended."""
        for entry in os.scandir(self._root):
            # Not followed: another user could place a link there to have other files deleted.
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            if self.owns(entry.name.removeprefix(PREFIX)):
                continue
            lock = _lock(Path(entry.path))
            # A running process writes it, or it has disappeared meanwhile.
            if lock is None:
                continue
            try:
                logger.info("removing an unfinished checkpoint: %s", entry.path)
                # Files that cannot be deleted now are collected next time.
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                # Closing the descriptor releases the lock.
                os.close(lock)

    def _unlock(self, checkpoint_id: str) -> None:
        """Release the lock of a checkpoint that is being written."""
        lock = self._own.pop(checkpoint_id, None)
        if lock is not None:
            os.close(lock)


def _lock(path: Path, *, wait: bool = False) -> int | None:
    """Lock a directory and return the descriptor.

    Returns None if a running process holds the lock, if the directory was deleted, or on file systems without locks.
    """
    try:
        # The lock is on the directory itself, so that no lock file can be left behind.
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # `flock` and not `lockf`, which needs a descriptor opened for writing; a directory has none.
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The directory may have been deleted or replaced before the lock was acquired.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except OSError:
        logger.debug("no lock on %s", path, exc_info=True)
    os.close(descriptor)
    return None
