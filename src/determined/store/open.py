"""Open the store that somebody names, or the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from determined import paths
from determined.errors import StoreError
from determined.store import place as places
from determined.store.base import Store

if TYPE_CHECKING:
    from determined.store.database import Database


def checked_place() -> str:
    """The user's own store, or the one that DET_STORE names, without opening it."""
    return places.resolve(paths.store_place())


def open_store(place: str | os.PathLike[str] | None = None) -> Store:
    """The store in that file or at that URL; without a name the one of DET_STORE, else the user's own.

    It is created, or brought to the version of this library, when that is needed.
    """
    # The queries and each driver are imported when they are used.
    from determined.store.sql_store import SqlStore

    return SqlStore(open_database(place))


def open_database(place: str | os.PathLike[str] | None = None) -> Database:
    """The same as a database, as it is found: nothing in it is brought up to date."""
    resolved = checked_place() if place is None else places.resolve(place)
    if places.is_postgres(resolved):
        from determined.store.postgres import PostgresDatabase

        return PostgresDatabase(resolved)
    from determined.store.sqlite import BUSY_SECONDS, SqliteDatabase

    return SqliteDatabase(Path(resolved), busy_seconds=min(BUSY_SECONDS, patience()))


@contextmanager
def opened_database(place: str | os.PathLike[str] | None = None) -> Iterator[Database]:
    """The tables of a store for as long as they are needed, brought to the version of this library."""
    from determined.store.migrate import migrate

    database = open_database(place)
    try:
        migrate(database)
        yield database
    finally:
        database.close()


def patience() -> float:
    """For how many seconds a store may be away before a run ends for it: DET_STORE_PATIENCE, else five minutes."""
    text = os.environ.get("DET_STORE_PATIENCE") or "300"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StoreError(f"DET_STORE_PATIENCE is {text!r}: expected a number of seconds")
    return seconds
