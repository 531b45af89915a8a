"""Bring a store to the version of this library, or refuse it; several processes may do so at once."""

from __future__ import annotations

import uuid

from determined.errors import StoreError
from determined.store.database import Database
from determined.store.schema import MIGRATIONS, VERSION_TABLE, refuse_foreign


def migrate(database: Database) -> None:
    """Nothing is written when there is nothing to do."""
    if version_of(database) == len(MIGRATIONS):
        return
    with database.transaction(exclusive=True):
        version = version_of(database)  # another process may have been faster
        if version == 0:
            database.execute(f"CREATE TABLE {VERSION_TABLE} (version INTEGER NOT NULL)")
            database.execute(f"INSERT INTO {VERSION_TABLE} (version) VALUES (0)")
        for migration in MIGRATIONS[version:]:
            for statement in migration.format(identity=database.identity).split(";"):
                if statement.strip():
                    database.execute(statement)
        if "store_identity" in database.tables():
            # What tells this store from all others that use the same checkpoint storage.
            database.execute("INSERT INTO store_identity (uuid) VALUES (?)", [str(uuid.uuid4())])
        database.execute(f"UPDATE {VERSION_TABLE} SET version = ?", [len(MIGRATIONS)])


def version_of(database: Database) -> int:
    """Of a store as it is found; one of a newer version, or of another program, is refused."""
    tables = database.tables()
    if not tables:
        return 0
    refuse_foreign(tables, database.place)
    ((version,),) = database.execute(f"SELECT version FROM {VERSION_TABLE}")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store {database.place} was written by a newer version of determined-pytorch (its schema is "
            f"{version}, this version knows {len(MIGRATIONS)}): upgrade, or name another store with DET_STORE"
        )
    return int(version)
