"""Unfinished checkpoints: hidden directories, each held by a lock that dies with its writer."""

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
    """The staging directories of one storage root that this process writes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own: dict[str, int | None] = {}  # the descriptor of the lock; None where locks do not work

    def path(self, storage_id: str) -> Path:
        return self._root / (PREFIX + storage_id)

    def create(self, storage_id: str) -> Path:
        path = self.path(storage_id)
        path.mkdir(mode=0o700)
        lock = _lock(path, wait=True)
        if not path.exists():  # somebody who cleans up came between the two lines above
            return self.create(storage_id)
        self._own[storage_id] = lock
        return path

    def owns(self, storage_id: str) -> bool:
        """Whether this process made the directory, and it is not finished."""
        return storage_id in self._own

    def publish(self, storage_id: str, target: Path) -> None:
        """The one step in which a checkpoint appears."""
        if os.path.lexists(target):
            raise InvalidCheckpointException(f"a checkpoint {storage_id} exists already in {self._root}")
        os.rename(self.path(storage_id), target)
        self._unlock(storage_id)

    def remove(self, storage_id: str) -> None:
        """Nothing happens to a directory that another process made."""
        if not self.owns(storage_id):
            return
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(storage_id))
        self._unlock(storage_id)

    def collect(self) -> None:
        """Remove what dead writers left behind."""
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
    """Hold a directory; None when a living process holds it, when it is gone, or where locks do not work."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except OSError:
        logger.debug("no lock on %s", path, exc_info=True)
    os.close(descriptor)
    return None
