"""Whether a store is whole: its file or server, its tables, and what its rows say of each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from determined.errors import StoreError
from determined.store import place as places
from determined.store.care import invariants, postgres_server, sqlite_file
from determined.store.care.finding import Finding
from determined.store.open import checked_place, opened_database


def check_store(tell: Callable[[str], None]) -> tuple[str, list[Finding]]:
    """Its name, and everything that is wrong with it; `tell` hears what is looked at. A store that cannot be opened,
    as one of a newer version, is a `StoreError`."""
    resolved = checked_place()
    if not places.is_postgres(resolved):
        path = Path(resolved)
        if not path.is_file():
            raise StoreError(f"there is no store at {resolved}")
        tell("the file")
        found = list(sqlite_file.problems(path))
        if any(finding.where == "file" for finding in found):
            return resolved, found  # what else it says cannot be believed
    with opened_database(resolved) as database:
        if places.is_postgres(resolved):
            tell("the server")
            found = list(postgres_server.problems(database))
        tell("tables")
        found += invariants.missing_parts(database)
        if not any("missing" in finding.what for finding in found):
            tell("what rows say of each other")
            found += invariants.broken_rules(database)
            tell("values")
            found += invariants.unreadable_values(database)
        return database.place, found
