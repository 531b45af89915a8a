"""Maintenance of a store on a PostgreSQL server: its size, its constraints, and vacuuming."""

from __future__ import annotations

from collections.abc import Iterator

from determined.store.databases.base import Database
from determined.store.databases.tables import all_tables
from determined.store.maintenance.finding import Finding

_OURS = "n.nspname = current_schema()"


def version(database: Database) -> str:
    """Return the version of the server."""
    ((found,),) = database.execute("SHOW server_version")
    return str(found)


def size(database: Database) -> int:
    """Return the size of the store's tables and indexes in bytes."""
    ((found,),) = database.execute(
        # The size of a table includes its indexes and its out-of-line values, so only tables are added up.
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
        f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS} AND c.relkind = 'r'"
    )
    return int(found)


def problems(database: Database) -> Iterator[Finding]:
    """Yield constraints and indexes that are missing or not in force.

    With them in force the server ensures the rest.
    """
    for table, name in database.execute(
        "SELECT c.relname, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid "
        f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS} AND NOT k.convalidated ORDER BY 1, 2"
    ):
        yield Finding(str(table), f"the constraint {name} was never checked: ALTER TABLE ... VALIDATE CONSTRAINT")
    for table, name in database.execute(
        "SELECT c.relname, i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
        "JOIN pg_class c ON c.oid = x.indrelid "
        f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS} AND NOT x.indisvalid ORDER BY 1, 2"
    ):
        yield Finding(str(table), f"the index {name} is not valid: REINDEX INDEX {name}")
    # A constraint that was dropped cannot be found by its name, so the number of references of each table is compared.
    for kept in all_tables().values():
        ((count,),) = database.execute(
            "SELECT count(*) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid "
            f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS} AND k.contype = 'f' AND c.relname = ?",
            [kept.name],
        )
        if count < len(kept.references):
            yield Finding(kept.name, f"{len(kept.references) - count} of its references are not kept by the server")


def vacuum(database: Database) -> None:
    """Make the space of dead rows reusable. The server's autovacuum would do the same later."""
    for name in all_tables():
        # Not FULL, which would lock the table against readers and writers. It cannot run inside a transaction.
        database.execute(f"VACUUM (ANALYZE) {name}")
