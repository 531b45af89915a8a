"""Read a store file that cannot be written: on a read-only file system, or without permission.

SQLite needs files beside a store in WAL mode even to read it, so it cannot open such a file in the usual way.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from determined.store.database import broken, unavailable

_TRIES = 5


def is_unwritable(path: Path) -> bool:
    """Whether a store is there, and neither it nor the files that SQLite needs beside it can be written."""
    if not path.exists():
        return False
    beside = [Path(f"{path}{ending}") for ending in ("-wal", "-shm")]
    can_have_files_beside = _is_writable(path.parent) or all(map(_is_writable, beside))
    return not (_is_writable(path) and can_have_files_beside)


def why_unwritable(path: Path) -> str:
    """The reason in the words of a message."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return "it is on a read-only file system"
    return "this user has no permission to write it"


def connect_unwritable(path: Path, *, copied: bool = False) -> sqlite3.Connection:
    """A connection to read a store that `is_unwritable`; with `copied` to a copy that can be changed.

    A file with a write-ahead log is copied with it, because the log holds rows that the file does not. So is one that
    its owner may change meanwhile. The copy is private and has no name: it is gone when the connection is closed.
    """
    try:
        log = Path(f"{path}-wal")
        is_read_only_disk = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        if not copied and is_read_only_disk and not (log.exists() and log.stat().st_size):
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        return _connect_copy(path)
    except (OSError, sqlite3.Error) as error:
        raise broken(str(path), error) from error


def _connect_copy(path: Path) -> sqlite3.Connection:
    directory = Path(tempfile.mkdtemp(prefix="determined-store-"))  # for the owner alone
    try:
        copy = directory / "store.sqlite"
        _copy(path, copy)
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
        try:
            # One file from now on, which stays readable when it loses its name; changes are journalled in memory.
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection
    finally:
        shutil.rmtree(directory)


def _copy(path: Path, copy: Path) -> None:
    """Copy the file and its write-ahead log, both as they are at one moment."""
    for _ in range(_TRIES):
        before = _state(path)
        for ending in ("", "-wal"):
            target = Path(f"{copy}{ending}")
            target.unlink(missing_ok=True)
            if Path(f"{path}{ending}").exists():
                shutil.copyfile(f"{path}{ending}", target)
        if _state(path) == before:
            return
    raise unavailable(str(path), "it changes all the time, so it cannot be copied to be read; try again later")


def _state(path: Path) -> list[tuple[int, int, int] | None]:
    found: list[tuple[int, int, int] | None] = []
    for ending in ("", "-wal"):
        try:
            status = os.stat(f"{path}{ending}")
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
