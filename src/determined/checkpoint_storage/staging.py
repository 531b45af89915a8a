"""Staging directories of unfinished checkpoints, each locked by the process that writes it.

The system releases a lock when its process ends, so `collect` can tell abandoned directories from those in use. Other
machines that share the storage may not see these locks: NFS keeps locks of directories on the machine that holds them.
A link beside each staging directory, `.owner-<id>`, therefore names the machine of its writer, and other machines
leave the directory alone for days.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import time
from pathlib import Path

from determined.errors import InvalidCheckpointException
from determined.machine import this_machine

logger = logging.getLogger("determined.checkpoint_storage")

PREFIX = ".staging-"  # no id begins with a dot, so a staging directory is never taken for a checkpoint
_OWNER = ".owner-"
# After this time the writer on another machine has ended: saving or reading a checkpoint takes hours at most.
_SECONDS_OTHERS_ARE_SPARED = 7 * 24 * 3600


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
        # Before the directory: without an owner, other machines would delete it.
        self._write_owner(checkpoint_id)
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
        self._remove_owner(checkpoint_id)
        # After the rename: until then the lock protects the directory from `collect`.
        self._unlock(checkpoint_id)

    def remove(self, checkpoint_id: str) -> None:
        """Delete a staging directory of this process; those of other processes are left alone."""
        if not self.owns(checkpoint_id):
            return
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(checkpoint_id))
        self._remove_owner(checkpoint_id)
        self._unlock(checkpoint_id)

    def collect(self) -> None:
        """Delete staging directories whose writers have ended; those of other machines only after days."""
        for entry in os.scandir(self._root):
            if entry.name.startswith(_OWNER):
                self._collect_owner(entry)
                continue
            # Not followed: another user could place a link there to have other files deleted.
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            checkpoint_id = entry.name.removeprefix(PREFIX)
            if self.owns(checkpoint_id) or self._is_of_another_machine(checkpoint_id, entry):
                continue
            lock = _lock(Path(entry.path))
            # A running process writes it, or it has disappeared meanwhile.
            if lock is None:
                continue
            try:
                logger.info("removing an unfinished checkpoint: %s", entry.path)
                # Before the directory: its name may be used again as soon as it is deleted, with a new owner.
                self._remove_owner(checkpoint_id)
                # Files that cannot be deleted now are collected next time.
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                # Closing the descriptor releases the lock.
                os.close(lock)

    def _owner(self, checkpoint_id: str) -> Path:
        return self._root / (_OWNER + checkpoint_id)

    def _write_owner(self, checkpoint_id: str) -> None:
        """Record this machine as that of the writer of a staging directory that does not exist yet."""
        owner = self._owner(checkpoint_id)
        # A link, because it is created with its content in one step.
        for _ in range(2):
            try:
                os.symlink(this_machine(), owner)
                return
            except FileExistsError:
                if self.path(checkpoint_id).exists() or self._machine(checkpoint_id) == this_machine():
                    return
                # A process of another machine ended before it created the directory.
                owner.unlink(missing_ok=True)
            except OSError:
                # File systems without links have no owners: only the lock protects the directory.
                logger.debug("no link %s", owner, exc_info=True)
                return

    def _remove_owner(self, checkpoint_id: str) -> None:
        self._owner(checkpoint_id).unlink(missing_ok=True)

    def _machine(self, checkpoint_id: str) -> str | None:
        """Return the machine of a writer; None if it is not known, as in directories of earlier versions."""
        try:
            return os.readlink(self._owner(checkpoint_id))
        except OSError:
            return None

    def _is_of_another_machine(self, checkpoint_id: str, entry: os.DirEntry[str]) -> bool:
        """Return whether a process of another machine may be writing a staging directory."""
        return self._machine(checkpoint_id) not in (None, this_machine()) and _is_young(entry)

    def _collect_owner(self, entry: os.DirEntry[str]) -> None:
        """Delete an owner without a directory, once no process can be about to create the directory."""
        checkpoint_id = entry.name.removeprefix(_OWNER)
        if not self.path(checkpoint_id).exists() and not _is_young(entry):
            self._remove_owner(checkpoint_id)

    def _unlock(self, checkpoint_id: str) -> None:
        """Release the lock of a checkpoint that is being written."""
        lock = self._own.pop(checkpoint_id, None)
        if lock is not None:
            os.close(lock)


def _is_young(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry was changed in the last days, or does not exist any more."""
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime < _SECONDS_OTHERS_ARE_SPARED
    except FileNotFoundError:
        return True


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
