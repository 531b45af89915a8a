"""Maintenance of a store in an SQLite file: its size, integrity checks, backups and vacuuming."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from determined.durable_files import publish
from determined.errors import StoreError
from determined.sentences import counted
from determined.store.databases.base import Database, broken, unavailable
from determined.store.databases.read_only_file import connect_unwritable, is_unwritable
from determined.store.databases.sqlite_errors import is_busy
from determined.store.maintenance.finding import Finding

Progress = Callable[[int, int], None]
"""Called with the number of pages done and the total."""

_MOST_FINDINGS = 100  # SQLite's own default; one problem is enough to know that the file is damaged
# Between two portions the progress is shown. They are 8 MB with SQLite's default page size of 4 kB.
_PAGES_AT_ONCE = 2_000


def sizes(path: Path) -> tuple[int, int]:
    """Return the size of the file together with its write-ahead log, and the size of the log alone.

    The files are not opened, because closing them would drop the locks that SQLite holds on them in this process.
    """
    log = _size(Path(f"{path}-wal"))
    return _size(path) + log, log


def problems(path: Path) -> Iterator[Finding]:
    """Yield damage to the structure of the file, and foreign keys that refer to missing rows."""
    try:
        with closing(_connect(path)) as connection:
            for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})"):
                if message != "ok":
                    yield Finding("file", " ".join(str(message).split()))
            for table, count, other in connection.execute(
                'SELECT "table", count(*), "parent" FROM pragma_foreign_key_check GROUP BY 1, 3'
            ):
                yield Finding(str(table), f"{counted(count, 'row refers', 'rows refer')} to missing rows of {other}")
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise unavailable(str(path), error) from error
        yield Finding("file", f"it cannot be read: {error}")


def back_up(path: Path, target: Path, progress: Progress) -> int:
    """Copy a store as it was at the start, while other processes may write, and return the size of the copy.

    The copy is checked and appears under its name only when it is complete.
    """
    # `exists` follows links and is False for a dangling one, which must not be replaced either.
    if target.exists() or target.is_symlink():
        raise StoreError(f"{target} already exists: name another file, or remove it")
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        # Created here with mode 0600, because SQLite would create it with the permissions of the umask.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _copy(path, draft, progress)
        # Checked before it gets its name: a damaged backup that looks complete is worse than none.
        found = next(problems(draft), None)
        if found is not None:
            raise StoreError(
                f"the copy of {path} is damaged ({found}), as the store itself may be: det store check; it was not kept"
            )
        publish(draft, target)
    # Another process created the draft or the target since the check above.
    except FileExistsError as error:
        raise StoreError(f"{target} already exists: name another file, or remove it") from error
    finally:
        # SQLite may leave files beside the draft when the copy is interrupted.
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(f"{draft}{ending}")
    return target.stat().st_size


def vacuum(database: Database, path: Path) -> None:
    """Rewrite the file without its unused pages. This temporarily needs twice its size on the disk."""
    # SQLite writes a temporary copy, and then as much to the write-ahead log.
    needed, free = 2 * sizes(path)[0], shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreError(
            f"the disk of {path} has {free:,} bytes left, and up to {needed:,} are needed on the way: make room first"
        )
    database.execute("VACUUM")
    # In WAL mode the result is in the log, and the file shrinks only when the log is merged into it.
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy(path: Path, draft: Path, progress: Progress) -> None:
    """Copy a store into a file with SQLite's backup function."""
    try:
        with closing(_connect(path)) as source, closing(sqlite3.connect(draft)) as copy:
            # A read transaction around all steps. Without it, SQLite restarts the backup whenever another process
            # writes, so it might never finish.
            source.execute("BEGIN")
            # BEGIN alone takes no snapshot; the first read does.
            source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            source.backup(
                copy,
                pages=_PAGES_AT_ONCE,
                progress=lambda status, remaining, total: progress(total - remaining, total),
            )
            source.execute("ROLLBACK")
            copy.execute("PRAGMA journal_mode = DELETE")  # leaves WAL mode, so that the copy is a single file
    except sqlite3.DatabaseError as error:
        raise (unavailable if is_busy(error) else broken)(str(path), error) from error


def _connect(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file, also to one that cannot be written."""
    if is_unwritable(path):
        return connect_unwritable(path)
    # mode=rw, because the default would create a missing file.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _size(path: Path) -> int:
    """Return the size of a file; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
