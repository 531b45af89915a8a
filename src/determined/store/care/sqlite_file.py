"""A store in a file: how large it is, whether SQLite finds it whole, a copy of it, and its empty pages given back."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from determined.errors import StoreError
from determined.store.care.finding import Finding
from determined.store.database import Database, broken, unavailable
from determined.store.unwritable import connect_unwritable, is_unwritable

Progress = Callable[[int, int], None]
"""Told how much of how much is done."""

_MOST_FINDINGS = 100
_PAGES_AT_ONCE = 2_000


def sizes(path: Path) -> tuple[int, int]:
    """Of everything together, and of what is not yet in the file itself. Only SQLite may open these files."""
    log = _size(Path(f"{path}-wal"))
    return _size(path) + log, log


def problems(path: Path) -> Iterator[Finding]:
    """What SQLite says of the file's structure, and of rows that refer to missing ones."""
    try:
        with closing(_connect(path)) as connection:
            for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})"):
                if message != "ok":
                    yield Finding("file", " ".join(str(message).split()))
            for table, count, other in connection.execute(
                'SELECT "table", count(*), "parent" FROM pragma_foreign_key_check GROUP BY 1, 3'
            ):
                yield Finding(str(table), f"{count} rows refer to rows of {other} that are not there")
    except sqlite3.DatabaseError as error:
        if _is_busy(error):
            raise unavailable(str(path), error) from error
        yield Finding("file", f"it cannot be read: {error}")


def back_up(path: Path, target: Path, progress: Progress) -> int:
    """A copy as the store was when it began, while others write on: whole and checked, or not there. Its size."""
    if target.exists() or target.is_symlink():
        raise StoreError(f"{target} is there already: name a file that is not")
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _copy(path, draft, progress)
        found = next(problems(draft), None)
        if found is not None:
            raise StoreError(
                f"the copy of {path} is damaged ({found}), as the store itself may be: det store check; it was not kept"
            )
        _flush(draft)
        _name(draft, target)
        _flush(target.parent)
    except FileExistsError as error:
        raise StoreError(f"{target} is there already: name a file that is not") from error
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(f"{draft}{ending}")
    return target.stat().st_size


def vacuum(database: Database, path: Path) -> None:
    """Write the file anew without its empty pages. It needs room for a second one on the way."""
    needed, free = 2 * sizes(path)[0], shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreError(
            f"the disk of {path} has {free:,} bytes left, and up to {needed:,} are needed on the way: make room first"
        )
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy(path: Path, draft: Path, progress: Progress) -> None:
    try:
        with closing(_connect(path)) as source, closing(sqlite3.connect(draft)) as copy:
            # One reading transaction around all steps: what others write meanwhile neither shows nor starts it anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            source.backup(
                copy,
                pages=_PAGES_AT_ONCE,
                progress=lambda status, remaining, total: progress(total - remaining, total),
            )
            source.execute("ROLLBACK")
            copy.execute("PRAGMA journal_mode = DELETE")  # so that it is one file
    except sqlite3.DatabaseError as error:
        raise (unavailable if _is_busy(error) else broken)(str(path), error) from error


def _name(draft: Path, target: Path) -> None:
    try:
        os.link(draft, target)  # fails where a rename would replace what somebody else has put there since
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        os.rename(draft, target)  # as on a memory stick, whose file system has no second names


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there, also to one that can only be read."""
    if is_unwritable(path):
        return connect_unwritable(path)
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error)
