"""Bring a store to the version of this library, or refuse it; several processes may do so at once."""

from __future__ import annotations

import uuid

from determined.errors import StoreVersionError
from determined.store.database import Database
from determined.store.process import Process, is_running
from determined.store.schema import MIGRATIONS, VERSION_TABLE, refuse_foreign


def migrate(database: Database, *, is_copy: bool = False) -> None:
    """Bring the tables to the version of this library; nothing is written when there is nothing to do.

    `is_copy` says that no process writes to this database, also if its rows name processes that run.
    """
    if version_of(database) == len(MIGRATIONS):
        return
    with database.transaction(exclusive=True):
        version = version_of(database)  # another process may have been faster
        if 0 < version < len(MIGRATIONS) and not is_copy:
            _refuse_while_in_use(database)
        if version == 0:
            database.execute(f"CREATE TABLE {VERSION_TABLE} (version INTEGER NOT NULL)")
            database.execute(f"INSERT INTO {VERSION_TABLE} (version) VALUES (0)")
        for migration in MIGRATIONS[version:]:
            for statement in migration.format(identity=database.identity).split(";"):
                if statement.strip():
                    database.execute(statement)
        if "store_identity" in database.tables() and not database.execute("SELECT 1 FROM store_identity"):
            # What tells this store from all others that use the same checkpoint storage.
            database.execute("INSERT INTO store_identity (uuid) VALUES (?)", [str(uuid.uuid4())])
        database.execute(f"UPDATE {VERSION_TABLE} SET version = ?", [len(MIGRATIONS)])


def _refuse_while_in_use(database: Database) -> None:
    """Raise if runs of the older version are at work here: they could not write to the new tables.

    Of processes on other machines nothing is known; a row of one that was killed must not block the store for ever.
    """
    found = database.execute("SELECT host, pid, process_started FROM attempts WHERE ended IS NULL")
    if "leases" in database.tables():
        found += database.execute("SELECT host, pid, process_started FROM leases WHERE host IS NOT NULL")
    running = sorted({process.pid for process in (Process(*row) for row in found) if is_running(process)})
    if running:
        raise StoreVersionError(
            f"the store {database.place} must be brought up to date for this version of determined-pytorch, but runs "
            f"of an older version still write to it (process {', '.join(map(str, running[:5]))}) and would lose what "
            "they report: let them end, or stop them, and try again; or name another store with DET_STORE"
        )


def version_of(database: Database) -> int:
    """Of a store as it is found; one of a newer version, or of another program, is refused."""
    tables = database.tables()
    if not tables:
        return 0
    refuse_foreign(tables, database.place)
    ((version,),) = database.execute(f"SELECT version FROM {VERSION_TABLE}")
    if version > len(MIGRATIONS):
        raise StoreVersionError(
            f"the store {database.place} was written by a newer version of determined-pytorch (its schema is "
            f"{version}, this version knows {len(MIGRATIONS)}): upgrade, or name another store with DET_STORE"
        )
    return int(version)
