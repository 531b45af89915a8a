"""Imports experiments from files into a store, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined.errors import StoreError, StoreUnavailable
from determined.store.databases.base import MOST_VALUES, Database
from determined.store.databases.tables import Table
from determined.store.maintenance.invariants import broken_rules
from determined.store.moving.format import moved_tables
from determined.store.moving.json_lines import read_json_lines
from determined.store.moving.reading_store import Rows
from determined.store.moving.row_checks import checked_row
from determined.store.moving.row_translation import RowTranslation
from determined.store.open import opened_database
from determined.store.sql.stamps import stamp_trials_without


@dataclass(frozen=True)
class Moved:
    """An experiment of an import, with its id in the source and in the store.

    If it is not new, it was left unchanged.
    """

    there: int
    here: int
    name: str
    new: bool


@dataclass(frozen=True)
class Imported:
    """The result of an import. `rows` counts the new rows by table."""

    place: str
    experiments: tuple[Moved, ...]
    rows: dict[str, int]


Change = Callable[[str, dict[str, Any]], None]
"""Takes the name of a table and a new row of it, and may change the row before it is stored."""


def import_store(
    source: Path,
    progress: Callable[[int], None],
    *,
    take_over: bool = False,
    change: Change = lambda table, row: None,
    finish: Callable[[tuple[Moved, ...]], None] = lambda moved: None,
    called: str | None = None,
) -> Imported:
    """Import rows into the store that commands use, all or none. `progress` is called with the number of rows read.

    Imported rows are marked as borrowed: this store never deletes their files. With `take_over`, the files that
    belonged to the exporting store belong to this one. `change` is called with every new row. `finish` is called when
    all rows are written but not yet committed, and may raise to cancel the import. `called` is the name of the source
    in messages.
    """
    if not source.exists():
        raise StoreError(f"{source} does not exist")
    place = called or str(source)
    # One transaction, so that an interrupted or rejected import leaves no rows.
    with opened_database() as database, database.transaction(exclusive=True):
        arrival = RowTranslation(database, keep_ids=_is_unused(database), take_over=take_over)
        before = set(broken_rules(database))  # existing problems of the store must not prevent an import
        written = dict.fromkeys(moved_tables(), 0)
        read = 0
        for table, rows in _in_order(_read(source, place), place):
            checked = [checked_row(table, row, place) for row in rows]
            new = arrival.take(table, checked, place)
            for row in new:
                change(table.name, row)
            _insert(database, table, new, place)
            written[table.name] += len(new)
            read += len(rows)
            progress(read)
        arrival.finish()
        stamp_trials_without(database)
        contradictions = [str(finding) for finding in broken_rules(database) if finding not in before]
        if contradictions:
            raise StoreError(f"{place} is inconsistent, and nothing was imported: {contradictions[0]}")
        if arrival.keep_ids:
            for table in moved_tables().values():
                if table.counts:
                    database.advance_ids(table.name)
        experiments = tuple(Moved(*each) for each in arrival.experiments())
        # The last step before the commit: files can be put into place here, and an error still cancels the rows.
        finish(experiments)
        return Imported(database.place, experiments, written)


def _read(source: Path, place: str) -> Iterator[tuple[str, Rows]]:
    """Return the rows of an export in chunks, each with the name of the table."""
    if source.is_dir():
        from determined.store.moving.parquet import read_parquet

        return read_parquet(source)
    return read_json_lines(source, place)


def _in_order(pieces: Iterator[tuple[str, Rows]], place: str) -> Iterator[tuple[Table, Rows]]:
    """Yield the chunks and check that each table comes after those that it refers to."""
    tables = moved_tables()
    order = list(tables)
    latest = 0
    for name, rows in pieces:
        if name not in tables:
            raise StoreError(f"{place}: there is no table {name[:100]!r}")
        if order.index(name) < latest:
            raise StoreError(f"{place}: rows of {name} come after those of {order[latest]}")
        latest = order.index(name)
        yield tables[name], rows


def _is_unused(database: Database) -> bool:
    """Return whether the store is empty, so that imported rows can keep their ids and links to them stay valid."""
    return not any(database.execute(f"SELECT 1 FROM {name} LIMIT 1") for name in moved_tables())


def _insert(database: Database, table: Table, rows: list[dict[str, Any]], place: str) -> None:
    """Insert rows into a table. Raise `StoreError` if the database rejects one."""
    one = f"({', '.join('?' * len(table.names))})"
    at_once = MOST_VALUES // len(table.names)
    try:
        for start in range(0, len(rows), at_once):
            chunk = rows[start : start + at_once]
            # Not `Database.insert`, which always has an ON CONFLICT clause: here a conflict is an error of the file.
            database.execute(
                f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES {', '.join([one] * len(chunk))}",
                [row[name] for row in chunk for name in table.names],
            )
    # Not an error of the file, and the message already says so.
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreError(f"{place}: a row of {table.name} does not fit, and nothing was imported: {error}") from error
