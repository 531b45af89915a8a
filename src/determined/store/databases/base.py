"""The `Database` interface: a connection to SQLite or PostgreSQL, with all statements in which the two differ.

What exists for one of them only, because a store is a file or a server, asks `location.is_postgres`: its size, checks,
backup and vacuum are in `maintenance/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from determined.errors import StoreError, StoreUnavailable

Values = Sequence[Any]
T = TypeVar("T")
MOST_VALUES = 900  # in one statement; the limit of older SQLite versions is 999


class Database(Protocol):
    """A database connection, for one thread at a time. Statements use `?` for their values.

    Temporary trouble is raised as `StoreUnavailable`: the same call may be retried later. Everything else is a
    `StoreError`. Both messages name the store.
    """

    place: str
    identity: str  # the type of an auto-incremented id column
    like: str  # the operator for case-insensitive pattern matching
    contains: str  # the condition that `{column}` contains a text, case-sensitive
    join_texts: str  # the aggregate function that joins texts with a separator
    begin_snapshot: str  # the statement that begins a transaction whose queries all see the same state

    def transaction(self, *, exclusive: bool = False) -> AbstractContextManager[None]:
        """Return a context manager that commits at the end of the block, or rolls back if it raises.

        At most one exclusive transaction runs at a time, over all processes.
        """
        ...

    def execute(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        ...

    def read_locked(self, select: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Return current rows of one table and lock them: other transactions cannot change them until this one ends."""
        ...

    def insert(self, into: str, rows: Iterable[Values], on_conflict: str) -> None:
        """Insert rows with `INSERT INTO {into} VALUES ... ON CONFLICT {on_conflict}`."""
        ...

    @property
    def file_identity(self) -> str:
        """A text that changes when the file of this database is replaced by another one; empty for a server."""
        ...

    def change_stamp(self) -> object:
        """Return a value that differs after any other connection has committed a change; it takes microseconds."""
        ...

    def tables(self) -> set[str]:
        """Return the names of the tables that exist."""
        ...

    def columns(self, table: str) -> set[str]:
        """Return the names of the columns that a table has."""
        ...

    def indexes(self) -> set[str]:
        """Return the names of the indexes that exist."""
        ...

    def reserve_ids(self, table: str, count: int) -> list[int]:
        """Return new ids of a table that no other row will get, inside the caller's exclusive transaction."""
        ...

    def advance_ids(self, table: str) -> None:
        """Advance the id counter of a table past the ids of rows that were inserted with explicit ids."""
        ...

    def close(self) -> None: ...


def unavailable(place: str, error: BaseException | str) -> StoreUnavailable:
    """Return the error for a store that cannot be reached at the moment."""
    return StoreUnavailable(f"the store {place} cannot be reached now: {error}")


def too_large(place: str) -> StoreError:
    """Return the error for an integer that does not fit: database integers have 64 bits, Python's are unbounded."""
    return StoreError(f"the store {place} holds no whole number of more than 64 bits, and was given one")


def broken(place: str, error: BaseException | str) -> StoreError:
    """Return the error for a store that cannot be used."""
    return StoreError(f"the store {place} cannot be used: {error}")


def few_enough(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in parts, each of which fits into one statement."""
    for start in range(0, len(values), MOST_VALUES):
        yield values[start : start + MOST_VALUES]
