"""Reads a store file that cannot be written, on a read-only file system or without permission.

To read a store in WAL mode SQLite creates files beside it, so it cannot open such a file in the usual way.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from determined.store.databases.base import broken, unavailable

_TRIES = 5  # a try fails only if the store changes while it is copied


def is_unwritable(path: Path | str) -> bool:
    """Return whether a store exists but it, or the files that SQLite needs beside it, cannot be written."""
    # With texts instead of paths, because the server of the web page looks several times for each request.
    if not os.path.exists(path):
        return False
    # If these files exist already, SQLite creates none, and the directory need not be writable.
    can_have_files_beside = _is_writable(os.path.dirname(path) or ".") or all(
        _is_writable(f"{path}{ending}") for ending in ("-wal", "-shm")
    )
    return not (_is_writable(path) and can_have_files_beside)


def why_unwritable(path: Path) -> str:
    """Return the reason why a file cannot be written, for a message."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return "it is on a read-only file system"
    return "this user has no permission to write it"


def connect_unwritable(path: Path, *, copied: bool = False) -> sqlite3.Connection:
    """Return a connection for reading a store that `is_unwritable`; with `copied`, to a copy that can be changed.

    The file is read in place only on a read-only file system and without a write-ahead log. Otherwise it is copied: the
    log contains rows that the file does not, and the owner may change the file meanwhile. The copy is unlinked right
    after it is opened, so it is deleted when the connection is closed.
    """
    try:
        log = Path(f"{path}-wal")
        is_read_only_disk = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        if not copied and is_read_only_disk and not (log.exists() and log.stat().st_size):
            # `immutable` makes SQLite read without locks and without files beside the store. The result would be
            # undefined if the file changed, which a read-only file system rules out.
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        return _connect_copy(path)
    except (OSError, sqlite3.Error) as error:
        raise broken(str(path), error) from error


def _connect_copy(path: Path) -> sqlite3.Connection:
    """Return a connection to a private temporary copy of a store."""
    directory = Path(tempfile.mkdtemp(prefix="determined-store-"))  # accessible for the owner only
    try:
        copy = directory / "store.sqlite"
        _copy(path, copy)
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
        try:
            # Merge the log into the file and keep the journal in memory, so that SQLite needs no other file by name
            # after the directory is removed below.
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection
    finally:
        shutil.rmtree(directory)


def _copy(path: Path, copy: Path) -> None:
    """Copy a store file and its write-ahead log in a consistent state, retrying if they change during the copy."""
    for _ in range(_TRIES):
        before = _state(path)
        for ending in ("", "-wal"):
            target = Path(f"{copy}{ending}")
            # A log that was copied in an earlier try would be merged into a file that it does not belong to.
            target.unlink(missing_ok=True)
            if Path(f"{path}{ending}").exists():
                shutil.copyfile(f"{path}{ending}", target)
        if _state(path) == before:
            return
    raise unavailable(str(path), "it changes all the time, so it cannot be copied to be read; try again later")


def _state(path: Path) -> list[tuple[int, int, int] | None]:
    """Return inode, size and modification time of the file and its log, to detect changes."""
    found: list[tuple[int, int, int] | None] = []
    for ending in ("", "-wal"):
        try:
            status = os.stat(f"{path}{ending}")
        except FileNotFoundError:
            found.append(None)
        else:
            # The size alone does not change when pages are overwritten in place.
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return found


# Files are opened with the effective user id, and `os.access` checks the real one by default.
_has_effective_ids = os.access in os.supports_effective_ids


def _is_writable(path: Path | str) -> bool:
    return os.access(path, os.W_OK, effective_ids=_has_effective_ids)
