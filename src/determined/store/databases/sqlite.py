"""A store in an SQLite file in WAL mode, in which readers never block and writers wait for each other."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from determined.errors import StoreError, StoreFull, StoreReadOnly
from determined.store.databases.base import MOST_VALUES, Values, broken, too_large, unavailable
from determined.store.databases.migrate import migrate, version_of
from determined.store.databases.read_only_file import connect_unwritable, is_unwritable, why_unwritable
from determined.store.databases.schema import MIGRATIONS, refuse_foreign
from determined.store.databases.sqlite_errors import is_busy, is_full, is_read_only

# SQLite waits this long for other writers. After that the call raises `StoreUnavailable`, which runs retry.
BUSY_SECONDS = 30.0

# References keep the connections open in a forked child, where garbage collection would otherwise close them.
_open: set[sqlite3.Connection] = set()


class SqliteDatabase:
    """A connection to an SQLite file, which is created with access for its owner only if it does not exist.

    A file that cannot be written is opened read-only. With `read_only` nothing is ever created or written. `Database`
    documents the methods.
    """

    # AUTOINCREMENT, so that the ids of deleted rows are not used again: readers ask for rows above the last id they
    # have.
    identity = "INTEGER PRIMARY KEY AUTOINCREMENT"
    # SQLite's LIKE ignores case only for ASCII letters; PostgreSQL's ILIKE for all letters.
    like = "LIKE"
    contains = "instr({column}, ?) > 0"
    join_texts = "group_concat"
    begin_snapshot = "BEGIN"  # every read transaction is a snapshot

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS, read_only: bool = False) -> None:
        self.place = str(path)
        self._busy_seconds = busy_seconds
        self._path = path
        self._pid = os.getpid()
        self._read_only = ""  # why nothing can be written
        if is_unwritable(path):
            self._open_unwritable()
            return
        try:
            if not read_only:
                self._create_file()
            # isolation_level=None: the driver starts no transactions, `transaction` does. mode=rw: SQLite creates no
            # file, which a reader must not do and other users could read.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=busy_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise broken(self.place, error) from error
        _open.add(self._connection)
        try:
            self._set_up()
            if read_only:
                self._connection.execute("PRAGMA query_only = ON")
                self._read_only = "it was opened for reading"
        # BaseException: an interrupted program must not keep a lock on the file.
        except BaseException:
            self.close()
            raise

    def _create_file(self) -> None:
        """Create the file for its owner only, unless it exists."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            # O_EXCL: an existing file is never opened here, because closing it would drop the POSIX locks that
            # other SQLite connections of this process hold on it.
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))

    def _open_unwritable(self) -> None:
        """Open the file read-only. If its schema is older, open and migrate a temporary copy instead."""
        self._connection = connect_unwritable(self._path)
        _open.add(self._connection)
        # Set before `migrate`, whose transaction compares it.
        self._file = self._identity_of_file()
        try:
            with self._translated_errors():
                refuse_foreign(self._tables(), self.place)
            if version_of(self) < len(MIGRATIONS):
                # Nothing can be migrated in the file itself; the copy is private, so no running process writes to it.
                self.close()
                self._connection = connect_unwritable(self._path, copied=True)
                _open.add(self._connection)
                migrate(self, is_copy=True)
            # Writes to the temporary copy would succeed, and be lost when it is closed.
            self._connection.execute("PRAGMA query_only = ON")
        except BaseException:
            self.close()
            raise
        self._read_only = why_unwritable(self._path)

    def _set_up(self) -> None:
        """Check that the file is a store, and set the mode of the connection."""
        try:
            # First of all, so that a file of another program is rejected before anything in it is changed.
            refuse_foreign(self._tables(), self.place)
            self._switch_to_wal()
            # In WAL mode this is safe against crashes of the process, and needs no fsync for each transaction.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")  # off by default in SQLite
        except sqlite3.Error as error:
            if is_busy(error):
                raise unavailable(self.place, self._busy()) from error
            raise broken(self.place, error) from error
        self._file = self._identity_of_file()

    def transaction(self, *, exclusive: bool = False) -> contextlib.AbstractContextManager[None]:
        # Every transaction here excludes all other writers, so an exclusive one needs nothing more.
        return self._transaction()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run a transaction, and roll it back if an exception leaves the block."""
        if self._read_only:
            raise self._cannot_be_written()
        # IMMEDIATE takes the write lock at once. A transaction that reads first and locks later could fail with
        # SQLITE_BUSY in the middle, without waiting for the time-out.
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            # SQLite would commit to an unlinked file without an error, and the rows would be lost.
            if self._identity_of_file() != self._file:
                raise StoreError(f"the store {self.place} was removed or replaced while a run was writing to it")
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # after some errors SQLite has already rolled back
                self._connection.execute("ROLLBACK")
            raise

    def execute(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._translated_errors():
            return self._connection.execute(statement, values).fetchall()

    def read_locked(self, select: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self.execute(select, values)  # no row lock needed: a transaction locks the file against other writers

    def insert(self, into: str, rows: Iterable[Values], on_conflict: str) -> None:
        """Insert rows, many in each statement.

        Each statement releases the GIL and must wait to get it back, so one statement per row would be slow.
        """
        remaining = iter(rows)
        first = next(remaining, None)
        if first is None:
            return
        one = f"({', '.join('?' * len(first))})"
        chunk = [first, *islice(remaining, MOST_VALUES // len(first) - 1)]
        while chunk:
            marks = ", ".join([one] * len(chunk))
            values = [value for row in chunk for value in row]
            self.execute(f"INSERT INTO {into} VALUES {marks} ON CONFLICT {on_conflict}", values)
            chunk = list(islice(remaining, MOST_VALUES // len(first)))

    @property
    def file_identity(self) -> str:
        return "" if self._file is None else "{}-{}".format(*self._file)

    def change_stamp(self) -> object:
        ((stamp,),) = self.execute("PRAGMA data_version")
        return stamp

    def tables(self) -> set[str]:
        with self._translated_errors():
            return self._tables()

    def columns(self, table: str) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM pragma_table_info(?)", [table])}

    def indexes(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}

    def reserve_ids(self, table: str, count: int) -> list[int]:
        # The transaction is exclusive, so no other process can take these ids before they are inserted.
        found = self.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table])
        first = (found[0][0] if found else 0) + 1
        return list(range(first, first + count))

    def advance_ids(self, table: str) -> None:
        """Do nothing: AUTOINCREMENT takes explicit ids into account."""

    def close(self) -> None:
        """Close the connection, unless this is a forked child: closing there would drop the parent's locks."""
        if os.getpid() == self._pid:
            _open.discard(self._connection)
            self._connection.close()

    def _tables(self) -> set[str]:
        """Return the names of all tables, without translating errors."""
        statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {name for (name,) in self._connection.execute(statement)}

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate SQLite errors into store errors; temporary ones, such as a full disk, into `StoreUnavailable`."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if is_read_only(error):
                raise self._cannot_be_written() from error
            if is_full(error):
                raise StoreFull(f"the store {self.place} cannot be written now: {error}") from error
            # Every other operational error (a locked file, an I/O error) may be temporary, so it is retried.
            raise unavailable(self.place, self._busy() if is_busy(error) else error) from error
        except sqlite3.Error as error:
            raise broken(self.place, error) from error
        # The driver raises it before SQLite sees the value.
        except OverflowError as error:
            raise too_large(self.place) from error

    def _cannot_be_written(self) -> StoreReadOnly:
        """Return the error for a write to a read-only store."""
        why = self._read_only or why_unwritable(self._path)
        return StoreReadOnly(
            f"the store {self.place} is read-only, nothing was changed: {why}; DET_STORE names another store"
        )

    def _busy(self) -> str:
        """Return the reason for a lock that was not acquired in time."""
        return f"other processes have been writing to it for {self._busy_seconds:g} seconds without a pause"

    def _switch_to_wal(self) -> None:
        """Switch the file to WAL mode, retrying while other processes do the same.

        SQLite's busy time-out does not apply to this statement when several processes open a new store at once.
        """
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                ((mode,),) = self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                # Another error is permanent, for example a file that is no database.
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)  # short, because the other process needs only a moment to switch the mode
                continue
            if mode != "wal":
                raise broken(self.place, f"SQLite has no WAL mode here (it stays in {mode!r} mode)")
            return

    def _identity_of_file(self) -> tuple[int, int] | None:
        """Return device and inode of the file, to detect that it was replaced; None if it does not exist."""
        try:
            status = os.stat(self._path)
        # The user may delete the file of a store that is open.
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
