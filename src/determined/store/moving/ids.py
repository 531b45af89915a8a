"""Allocates ids for rows that are imported from another store."""

from __future__ import annotations

from determined.store.databases.base import Database
from determined.store.databases.sqlite import SqliteDatabase
from determined.store.databases.tables import Table


def reserve(database: Database, table: Table, count: int) -> list[int]:
    """Return new ids of a table, which no other row will get, inside the caller's transaction."""
    if isinstance(database, SqliteDatabase):
        # The import holds an exclusive transaction, so no other process can take these ids before they are inserted.
        found = database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table.name])
        first = (found[0][0] if found else 0) + 1
        return list(range(first, first + count))
    # A sequence is not rolled back, so other sessions never get the same numbers.
    rows = database.execute(f"SELECT nextval({_SEQUENCE}) FROM generate_series(1, ?)", [table.name, count])
    return sorted(number for (number,) in rows)


def advance_id_counter(database: Database, table: Table) -> None:
    """Advance the id counter of a table past the ids of rows that were inserted with explicit ids."""
    if isinstance(database, SqliteDatabase):
        return  # AUTOINCREMENT takes explicit ids into account
    database.execute(
        # Never set back: another session may have drawn larger ids meanwhile. `greatest` ignores NULL, the maximum of
        # an empty table.
        f"SELECT setval({_SEQUENCE}, greatest(max(id), nextval({_SEQUENCE}))) FROM {table.name}",
        [table.name, table.name],
    )


_SEQUENCE = "pg_get_serial_sequence(?, 'id')"
