"""Information about a store: its version, row counts, and disk usage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from determined import paths
from determined.store.databases import location as places
from determined.store.databases.base import Database
from determined.store.databases.schema import MIGRATIONS
from determined.store.databases.tables import all_tables
from determined.store.maintenance import postgres_server
from determined.store.maintenance.sqlite_file import sizes
from determined.store.open import checked_place, opened_database


@dataclass(frozen=True)
class Content:
    """An entry of the data directory, with the number and total size of its files."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Info:
    """Information about a store. `place` contains no password."""

    place: str
    kind: Literal["sqlite", "postgresql"]
    database_version: str
    schema_version: int
    bytes: int
    log_bytes: int  # the part of `bytes` that is in SQLite's write-ahead log; 0 for PostgreSQL
    rows: dict[str, int]
    experiments: dict[str, int]  # count by state; standalone runs, which store none, as BY_HAND
    checkpoints: dict[str, int]  # count by state
    data_dir: str
    contents: tuple[Content, ...]


def read_info() -> Info:
    """Return information about the store that commands use."""
    resolved = checked_place()
    with opened_database(resolved) as database:
        if places.is_postgres(resolved):
            size, log = postgres_server.size(database), 0
            version = postgres_server.version(database)
        else:
            size, log = sizes(Path(resolved))
            ((version,),) = database.execute("SELECT sqlite_version()")
        rows = {name: _count(database, name) for name in all_tables()}
        directory = paths.data_dir()
        return Info(
            database.place,
            "postgresql" if places.is_postgres(resolved) else "sqlite",
            version,
            len(MIGRATIONS),
            size,
            log,
            rows,
            _by_state(database, "experiments", "coalesce(state, 'BY_HAND')"),
            _by_state(database, "checkpoints", "state"),
            str(directory),
            tuple(_contents(directory)),
        )


def _count(database: Database, table: str) -> int:
    """Return the number of rows of a table."""
    ((count,),) = database.execute(f"SELECT count(*) FROM {table}")
    return int(count)


def _by_state(database: Database, table: str, state: str) -> dict[str, int]:
    """Return the number of rows of a table by state."""
    return dict(database.execute(f"SELECT {state}, count(*) FROM {table} GROUP BY 1 ORDER BY 1"))


def _contents(directory: Path) -> Iterator[Content]:
    """Yield the entries of a directory with their sizes. Symbolic links are counted, not followed."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        found = list(_sizes_below(entry.path)) if entry.is_dir(follow_symlinks=False) else [_size(entry.path)]
        yield Content(entry.name, len(found), sum(found))


def _sizes_below(directory: str) -> Iterator[int]:
    """Yield the sizes of the files below a directory."""
    for root, _, files in os.walk(directory):
        for file in files:
            yield _size(os.path.join(root, file))


def _size(path: str) -> int:
    """Return the size of a file; 0 if it was deleted meanwhile."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0
