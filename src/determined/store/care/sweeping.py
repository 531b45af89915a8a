"""Give back the room of what was deleted, when nobody is at work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from determined.errors import StoreError
from determined.store import place as places
from determined.store.care import postgres_server, sqlite_file
from determined.store.care.at_work import at_work
from determined.store.database import Database
from determined.store.open import checked_place, opened_database


@dataclass(frozen=True)
class Swept:
    """How large the store was, and how large it is."""

    place: str
    before: int
    after: int


def vacuum_store() -> Swept:
    """A file is written anew, which makes writers wait: it is refused while runs of this machine write to it."""
    resolved = checked_place()
    with opened_database(resolved) as database:
        if places.is_postgres(resolved):
            before = postgres_server.size(database)
            postgres_server.vacuum(database)
            return Swept(database.place, before, postgres_server.size(database))
        _refuse_while_runs_write(database)
        before, _ = sqlite_file.sizes(Path(resolved))
        sqlite_file.vacuum(database, Path(resolved))
        return Swept(resolved, before, sqlite_file.sizes(Path(resolved))[0])


def _refuse_while_runs_write(database: Database) -> None:
    for experiment_id, process in at_work(database).items():
        raise StoreError(
            f"experiment {experiment_id} is at work (process {process.pid} on host {process.host}), and would have to "
            f"wait: try again when it has ended, or pause it with det experiment pause {experiment_id}"
        )
