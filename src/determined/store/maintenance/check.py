"""Checks the integrity of a store: its file or server, its tables, and the consistency of its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from determined.errors import StoreError
from determined.store.databases import location as places
from determined.store.maintenance import invariants, postgres_server, sqlite_file
from determined.store.maintenance.finding import Finding
from determined.store.open import checked_place, opened_database


def check_store(tell: Callable[[str], None]) -> tuple[str, list[Finding]]:
    """Check the store and return its location and all problems found. `tell` is called with the name of each step.

    Raise `StoreError` if the store cannot be opened, for example because its schema is newer than this library.
    """
    resolved = checked_place()
    # The structure of the file is checked before it is opened in the usual way, which may migrate it.
    if not places.is_postgres(resolved):
        path = Path(resolved)
        if not path.is_file():
            raise StoreError(f"there is no store at {resolved}")
        tell("the file")
        found = list(sqlite_file.problems(path))
        if any(finding.where == "file" for finding in found):
            return resolved, found  # rows of a damaged file cannot be trusted, so they are not checked
    with opened_database(resolved) as database:
        if places.is_postgres(resolved):
            tell("the server")
            found = list(postgres_server.problems(database))
        tell("tables")
        found += invariants.missing_parts(database)
        # The rules below query columns that would not exist.
        if not any("missing" in finding.what for finding in found):
            tell("what rows say of each other")
            found += invariants.broken_rules(database)
            tell("values")
            found += invariants.unreadable_values(database)
        return database.place, found
