"""Opens the store at a given place, or the user's default store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from determined import paths
from determined.errors import StoreError
from determined.store.databases import location as places

if TYPE_CHECKING:
    from determined.store.databases.base import Database
    from determined.store.store import Store


def checked_place() -> str:
    """Return the location of the default store (DET_STORE or the user's own), validated but not opened."""
    return places.resolve(paths.store_place())


def open_store(place: str | os.PathLike[str] | None = None) -> Store:
    """Open the store at a file path or URL; by default the one that DET_STORE names, or else the user's own.

    The store is created or migrated to the schema version of this library if necessary.
    """
    # The queries and the drivers are imported on demand, to keep the import of the library fast.
    from determined.store.store import Store

    return Store(open_database(place))


def open_database(place: str | os.PathLike[str] | None = None, *, read_only: bool = False) -> Database:
    """Open the database of a store without creating or migrating its tables.

    With `read_only` a missing file is not created either, and the connection refuses changes.
    """
    resolved = checked_place() if place is None else places.resolve(place)
    if places.is_postgres(resolved):
        from determined.store.databases.postgres import PostgresDatabase

        return PostgresDatabase(resolved, read_only=read_only)
    if places.is_relay(resolved):
        raise StoreError(
            "the store of this experiment is on another machine, and its trials can only report to it: to read it or "
            "change it from here, run the experiment with a store in PostgreSQL (DET_STORE=postgresql://...), which "
            "every machine can reach"
        )
    from determined.store.databases.sqlite import BUSY_SECONDS, SqliteDatabase

    # SQLite itself waits for this time, so with a shorter patience a run would wait longer than the user allows.
    return SqliteDatabase(Path(resolved), busy_seconds=min(BUSY_SECONDS, patience()), read_only=read_only)


@contextmanager
def opened_database(place: str | os.PathLike[str] | None = None) -> Iterator[Database]:
    """Open the database of a store, migrate its tables if necessary, and close it at the end of the block."""
    from determined.store.databases.migrate import migrate

    database = open_database(place)
    try:
        migrate(database)
        yield database
    finally:
        database.close()


def patience() -> float:
    """Return how many seconds a run waits for an unreachable store before it fails.

    The value of DET_STORE_PATIENCE; by default 300.
    """
    text = os.environ.get("DET_STORE_PATIENCE") or "300"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0  # rejected below, with the same message as a number out of range
    # NaN fails this comparison too, and infinity would never give up.
    if not 0 <= seconds < float("inf"):
        raise StoreError(f"DET_STORE_PATIENCE is {text!r}: expected a number of seconds")
    return seconds
