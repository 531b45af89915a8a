"""Migrates the tables of a store to the schema version of this library, or rejects the store.

Several processes may open, and so migrate, a store at the same time.
"""

from __future__ import annotations

import uuid

from determined.errors import StoreVersionError
from determined.store.databases.base import Database
from determined.store.databases.schema import MIGRATIONS, VERSION_TABLE, refuse_foreign
from determined.store.process import Process, is_running


def migrate(database: Database, *, is_copy: bool = False) -> None:
    """Migrate the tables to the schema version of this library. Nothing is written if they are current.

    `is_copy` states that no process writes to this database even if its rows name running processes.
    """
    # Without a lock first, because nearly every opening finds a current schema and must not wait for writers.
    if version_of(database) == len(MIGRATIONS):
        return
    with database.transaction(exclusive=True):
        version = version_of(database)  # again, under the lock: another process may have migrated meanwhile
        if 0 < version < len(MIGRATIONS) and not is_copy:
            _refuse_while_in_use(database)
        if version == 0:
            database.execute(f"CREATE TABLE {VERSION_TABLE} (version INTEGER NOT NULL)")
            database.execute(f"INSERT INTO {VERSION_TABLE} (version) VALUES (0)")
        # In one transaction, which covers changes of tables in both databases: a failure leaves the old version
        # intact.
        for migration in MIGRATIONS[version:]:
            # `execute` runs one statement, so no migration may contain a semicolon within a literal.
            for statement in migration.format(identity=database.identity).split(";"):
                if statement.strip():
                    database.execute(statement)
        if "store_identity" in database.tables() and not database.execute("SELECT 1 FROM store_identity"):
            # Distinguishes this store from others that use the same checkpoint storage.
            database.execute("INSERT INTO store_identity (uuid) VALUES (?)", [str(uuid.uuid4())])
        if version:
            from determined.store.sql.stamps import stamp_trials_without  # late: most stores are up to date

            stamp_trials_without(database)
        database.execute(f"UPDATE {VERSION_TABLE} SET version = ?", [len(MIGRATIONS)])


def _refuse_while_in_use(database: Database) -> None:
    """Raise `StoreVersionError` if processes of an older version are running: they could not write to the new tables.

    Only processes on this host can be checked. Rows of processes on other hosts are ignored, because a row left by a
    killed process would otherwise block the migration forever.
    """
    found = database.execute("SELECT host, pid, process_started FROM attempts WHERE ended IS NULL")
    # The tables of the first schema version have no leases.
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
    """Return the schema version of a store; 0 if it is empty. Raise if it is newer than this library or not a store."""
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
