"""Open the store that somebody names, or the user's own."""

from __future__ import annotations

import os
from pathlib import Path

from determined import paths
from determined.errors import StoreError
from determined.store import place as places
from determined.store.base import Store


def checked_place() -> str:
    """The user's own store, or the one that DET_STORE names, without opening it."""
    return places.resolve(paths.store_place())


def open_store(place: str | os.PathLike[str] | None = None) -> Store:
    """The store in that file or at that URL; without a name the one of DET_STORE, else the user's own.

    It is created, or brought to the version of this library, when that is needed.
    """
    resolved = checked_place() if place is None else places.resolve(place)
    # The queries and each driver are imported when they are used.
    from determined.store.sql_store import SqlStore

    if places.is_postgres(resolved):
        from determined.store.postgres import PostgresDatabase

        return SqlStore(PostgresDatabase(resolved))
    from determined.store.sqlite import BUSY_SECONDS, SqliteDatabase

    return SqlStore(SqliteDatabase(Path(resolved), busy_seconds=min(BUSY_SECONDS, patience())))


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
