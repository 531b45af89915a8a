"""Reads the names of columns and indexes from a database's own catalog."""

from __future__ import annotations

from determined.store.databases.base import Database
from determined.store.databases.sqlite import SqliteDatabase


def columns(database: Database, table: str) -> set[str]:
    """Return the names of the columns that a table has in the database."""
    if isinstance(database, SqliteDatabase):
        found = database.execute("SELECT name FROM pragma_table_info(?)", [table])
    else:
        found = database.execute(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name = ?",
            [table],
        )
    return {name for (name,) in found}


def indexes(database: Database) -> set[str]:
    """Return the names of the indexes that the database has."""
    if isinstance(database, SqliteDatabase):
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
    else:
        found = database.execute("SELECT indexname FROM pg_catalog.pg_indexes WHERE schemaname = current_schema()")
    return {name for (name,) in found}
