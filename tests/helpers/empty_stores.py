"""Empty stores of both kinds with all tables, prepared once and used again: most tests are not about creating them.

A store on SQLite is the copy of a file. One on PostgreSQL is a database whose rows are deleted after each test; if the
test has changed a table as well, the tables are created again.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from pathlib import Path
from typing import Any

from determined.store.open import open_store
from tests.helpers.postgres import PostgresServer

_SCHEMA = "determined"

# The version of the schema is the only row that all new stores have in common.
_DELETE_ROWS = f"""
DO $$
DECLARE
    name text;
BEGIN
    SET LOCAL session_replication_role = replica;  -- without it, references between tables would dictate the order
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{_SCHEMA}' AND tablename <> 'determined_schema' LOOP
        EXECUTE format('DELETE FROM {_SCHEMA}.%I', name);
    END LOOP;
    PERFORM setval(format('{_SCHEMA}.%I', sequencename)::regclass, 1, false)
        FROM pg_sequences WHERE schemaname = '{_SCHEMA}' AND last_value IS NOT NULL;
END $$
"""

# Every change of a table, a column or an index writes to these catalogs, and so changes the number or the newest
# transaction of their rows.
_STATE_OF_TABLES = f"""
SELECT
    (SELECT version FROM {_SCHEMA}.determined_schema),
    (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_class WHERE relnamespace = '{_SCHEMA}'::regnamespace),
    (SELECT (count(*), max(a.xmin::text::bigint))::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = '{_SCHEMA}'::regnamespace),
    (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_constraint WHERE connamespace = '{_SCHEMA}'::regnamespace)
"""

_END_OTHER_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class SqliteStores:
    """Stores on SQLite: copies of one file."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "store.sqlite"
        open_store(self._file).close()

    def create(self, path: Path) -> None:
        """Create an empty store with a new identity at a path."""
        shutil.copy(self._file, path)  # keeps its permissions
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE store_identity SET uuid = ?", [str(uuid.uuid4())])
        connection.close()


class PostgresStores:
    """Stores on PostgreSQL: databases of one server that tests use one after the other."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._without_tables: list[str] = []
        self._with_tables: list[tuple[str, Any]] = []
        self._in_use: dict[str, Any] = {}  # by URL: the state of the tables when the database was handed out

    def take(self, *, with_tables: bool) -> str:
        """Return the URL of a database that no test uses: an empty store, or a database without tables."""
        if with_tables and self._with_tables:
            url, state = self._with_tables.pop()
        else:
            url, state = self._without_tables.pop() if self._without_tables else self._server.new_database(), None
            if with_tables:
                open_store(url).close()
                state = self._state(url)
        self._in_use[url] = state
        return url

    def give_back(self, url: str) -> None:
        """Empty a database for the next test."""
        import psycopg

        state = self._in_use.pop(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_END_OTHER_SESSIONS)
            if state is not None and _exists(connection) and connection.execute(_STATE_OF_TABLES).fetchall() == state:
                connection.execute(_DELETE_ROWS)
                connection.execute(f"INSERT INTO {_SCHEMA}.store_identity (uuid) VALUES (gen_random_uuid())")
                self._with_tables.append((url, state))
            else:
                connection.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
                self._without_tables.append(url)

    def _state(self, url: str) -> Any:
        import psycopg

        with psycopg.connect(url) as connection:
            return connection.execute(_STATE_OF_TABLES).fetchall()


def _exists(connection: Any) -> bool:
    """Return whether the tables that `_STATE_OF_TABLES` reads exist."""
    ((found,),) = connection.execute(f"SELECT to_regclass('{_SCHEMA}.determined_schema') IS NOT NULL").fetchall()
    return bool(found)
