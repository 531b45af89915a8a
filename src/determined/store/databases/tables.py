"""Descriptions of the tables, their columns and references, read from the schema.

Export, import and checks use them, so that they follow the schema without further changes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Literal

from determined.store.databases.schema import MIGRATIONS
from determined.store.databases.sqlite import SqliteDatabase

Kind = Literal["flag", "integer", "long", "real", "text"]

_KINDS: dict[str, Kind] = {
    "SMALLINT": "flag",
    "INTEGER": "integer",
    "BIGINT": "long",
    "DOUBLE PRECISION": "real",
    "TEXT": "text",
}


@dataclass(frozen=True)
class Column:
    """A column of a table, with the default for rows that have no value for it."""

    name: str
    kind: Kind
    nullable: bool
    default: str | float | int | None


@dataclass(frozen=True)
class Reference:
    """A foreign key: a column that refers to a row of another table or of the same."""

    column: str
    table: str
    target: str


@dataclass(frozen=True)
class Table:
    """A table. `counts` states that its key is an auto-incremented `id`."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    references: tuple[Reference, ...]
    counts: bool

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def has(self, column: str) -> bool:
        """Return whether the table has a column."""
        return column in self.names


@cache
def all_tables() -> dict[str, Table]:
    """Return the tables by name, each after those that it refers to.

    They have the order in which the migrations introduced their names. Exports are written and read in this order, so a
    table that a later migration recreates under its old name must keep its place.
    """
    # Queried from SQLite and not parsed from the text, because later migrations alter and recreate tables.
    # Read from an empty SQLite database in memory: the tables of PostgreSQL come from the same migrations.
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    introduced = dict[str, None]()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in MIGRATIONS:
            connection.executescript(migration.format(identity=SqliteDatabase.identity))
            present = [name for (name,) in connection.execute(statement)]
            introduced |= dict.fromkeys(present)
        return {name: _table(connection, name) for name in introduced if name in present}


@cache
def all_indexes() -> dict[str, str]:
    """Return the table of each index that the schema creates, by the name of the index."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in MIGRATIONS:
            connection.executescript(migration.format(identity=SqliteDatabase.identity))
        statement = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        return dict(connection.execute(statement).fetchall())


def _table(connection: sqlite3.Connection, name: str) -> Table:
    """Return the description of one table."""
    columns, key = list[Column](), list[tuple[int, str]]()
    for _, column, declared, not_null, default, place_in_key in connection.execute(f"PRAGMA table_info({name})"):
        # The default is the text of an SQL expression, for example `'[]'` in quotes.
        value = None if default is None else connection.execute(f"SELECT {default}").fetchone()[0]
        # SQLite reports the columns of a primary key as nullable, although none of ours is.
        in_key = place_in_key > 0
        # SQLite requires INTEGER for an auto-incremented key, whose values have 64 bits in both databases.
        kind: Kind = "long" if column == "id" else _KINDS[declared]
        columns.append(Column(column, kind, not (not_null or in_key), value))
        if in_key:
            key.append((place_in_key, column))
    references = [
        Reference(column, table, target)
        for _, _, table, column, target, *_ in connection.execute(f"PRAGMA foreign_key_list({name})")
    ]
    names = tuple(column for _, column in sorted(key))
    return Table(name, tuple(columns), names, tuple(references), counts=names == ("id",))
