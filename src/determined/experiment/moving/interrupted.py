"""Notes about running imports, with which files of a killed import are deleted later."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from determined import paths
from determined.names import is_name
from determined.store.databases import location as places
from determined.store.open import checked_place, opened_database


class ImportNote:
    """A file that lists the directories of a running import; it is locked as long as the process lives."""

    def __init__(self, key: str, directories: Iterable[Path]) -> None:
        """Write the note durably before the first directory is created. `key` belongs to one of the experiments."""
        self._path = paths.made_private(paths.imports_dir()) / f"{secrets.token_hex(8)}.json"
        # O_EXCL: the note of another import is never overwritten.
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Held as long as this process lives: a free lock proves that the import was killed.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        content = {"store": places.shown(checked_place()), "key": key, "directories": list(map(str, directories))}
        os.write(self._descriptor, json.dumps(content).encode())
        # Synced before any directory is created, so that a note exists for everything that can be left behind.
        os.fsync(self._descriptor)

    def remove(self) -> None:
        """Delete the note: the rows are committed, or nothing is left of the import."""
        # Removed before the lock is released: a process that gets the lock must not find the note.
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        _remove_if_empty(self._path.parent)


def remove_interrupted() -> None:
    """Delete what killed imports into the current store left behind, unless their rows were committed."""
    for path in paths.imports_dir().glob("*.json"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Not blocking: a locked note belongs to an import in progress.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _roll_back_import(path)
        except BlockingIOError:
            continue  # its process is still running
        finally:
            os.close(descriptor)
    _remove_if_empty(paths.imports_dir())


def _roll_back_import(path: Path) -> None:
    """Delete the directories of a killed import if its rows were not committed; then delete the note."""
    try:
        content = json.loads(path.read_text())
    except ValueError:  # killed while writing the note: no directory existed yet
        path.unlink()
        return
    if content["store"] != places.shown(checked_place()):
        return  # only that store knows whether the rows were committed
    with opened_database() as database:
        is_committed = bool(database.execute("SELECT 1 FROM experiments WHERE key = ?", [content["key"]]))
    for directory in [] if is_committed else map(Path, content["directories"]):
        # The note is a file of the user, which may have been edited; a link is not followed.
        if is_name(directory.name) and not directory.is_symlink():
            shutil.rmtree(directory, ignore_errors=True)
    path.unlink()


def _remove_if_empty(directory: Path) -> None:
    """Remove a directory if it is empty: another import may still use it."""
    with suppress(OSError):
        directory.rmdir()
