"""Reads a complete table in pages, ordered by its primary key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from determined.store.databases.base import Database
from determined.store.databases.tables import Table

_ROWS = 2_000  # bounds the memory of an export or check, independent of the size of the table


def pages(
    database: Database, table: Table, columns: Sequence[str], condition: str = "", values: Sequence[Any] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the selected columns of a table, one page of rows at a time, ordered by primary key.

    Each page starts after the key of the last row (keyset pagination), so rows that are inserted or deleted meanwhile
    do not shift the following pages.
    """
    key, marks = ", ".join(table.key), ", ".join("?" * len(table.key))
    wanted = [*table.key, *columns]
    last: tuple[Any, ...] | None = None
    while True:
        # Compares tuples, which both databases support and answer with the index of the primary key.
        conditions = [text for text in (condition, "" if last is None else f"({key}) > ({marks})") if text]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        page = database.execute(
            f"SELECT {', '.join(wanted)} FROM {table.name} {where} ORDER BY {key} LIMIT {_ROWS}",
            [*values, *(last or ())],
        )
        if page:
            yield [row[len(table.key) :] for row in page]
            last = page[-1][: len(table.key)]
        # A page that is not full is the last one, which saves a query that returns nothing.
        if len(page) < _ROWS:
            return
