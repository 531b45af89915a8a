"""Reclaims disk space after deletions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from determined.errors import StoreError
from determined.store.databases import location as places
from determined.store.databases.base import Database
from determined.store.maintenance import postgres_server, sqlite_file
from determined.store.maintenance.active_experiments import running_experiments
from determined.store.open import checked_place, opened_database


@dataclass(frozen=True)
class VacuumResult:
    """The size of a store before and after vacuuming."""

    place: str
    before: int
    after: int


def vacuum_store() -> VacuumResult:
    """Reclaim the disk space of deleted rows.

    An SQLite file is rewritten, which blocks all writers, so this raises `StoreError` while runs write to it.
    """
    resolved = checked_place()
    with opened_database(resolved) as database:
        if places.is_postgres(resolved):
            # Allowed while experiments run: this form of VACUUM blocks neither readers nor writers.
            before = postgres_server.size(database)
            postgres_server.vacuum(database)
            return VacuumResult(database.place, before, postgres_server.size(database))
        _refuse_while_runs_write(database)
        before, _ = sqlite_file.sizes(Path(resolved))
        sqlite_file.vacuum(database, Path(resolved))
        return VacuumResult(resolved, before, sqlite_file.sizes(Path(resolved))[0])


def _refuse_while_runs_write(database: Database) -> None:
    """Raise `StoreError` if an experiment is running."""
    for experiment_id, process in running_experiments(database).items():
        raise StoreError(
            f"experiment {experiment_id} is running (process {process.pid} on host {process.host}), and would have to "
            f"wait: try again when it has ended, or pause it with det experiment pause {experiment_id}"
        )
