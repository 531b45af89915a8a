"""What the queries need of a database, and all that differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from determined.errors import StoreError, StoreUnavailable

Values = Sequence[Any]


class Database(Protocol):
    """One connection, for one thread at a time. Statements have `?` for their values.

    Trouble that may pass is raised as `StoreUnavailable`: the same call may be tried again later. Everything else is
    a `StoreError`. Both name the place.
    """

    place: str
    identity: str  # the type of a column that counts rows
    like: str  # the operator that compares a text with a pattern, upper and lower case alike
    contains: str  # the condition that `{column}` has a text in it, upper and lower case told apart

    def transaction(self, *, exclusive: bool = False) -> AbstractContextManager[None]:
        """All or nothing; an exclusive one is alone among all exclusive ones of all processes."""
        ...

    def execute(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        ...

    def read_locked(self, select: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Rows of one table as they are now; no other transaction changes them until this one ends."""
        ...

    def insert(self, into: str, rows: Iterable[Values], on_conflict: str) -> None:
        """Many rows of the same kind, for `INSERT INTO {into} VALUES ... ON CONFLICT {on_conflict}`."""
        ...

    def tables(self) -> set[str]:
        """What is there already."""
        ...

    def close(self) -> None: ...


def unavailable(place: str, error: BaseException | str) -> StoreUnavailable:
    return StoreUnavailable(f"the store {place} cannot be reached now: {error}")


def too_large(place: str) -> StoreError:
    """Whole numbers in a database have 64 bits, those of Python have no end."""
    return StoreError(f"the store {place} holds no whole number of more than 64 bits, and was given one")


def broken(place: str, error: BaseException | str) -> StoreError:
    return StoreError(f"the store {place} cannot be used: {error}")
