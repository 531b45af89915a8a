"""SQL implementation of the `Queue` interface for all databases."""

from __future__ import annotations

import time

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.queue_records import HIGHEST_PRIORITY, LOWEST_PRIORITY, Entry, NewEntry
from determined.store.sql.columns import text

_ENTRIES = "SELECT id, experiment_id, host, owner, priority, slots, max_trials, added FROM queue"


class SqlQueue:
    """The queue in a database. The methods are documented in `queueing.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewEntry) -> Entry:
        _check(new.priority)
        # Exclusive, otherwise two commands could both find the experiment absent, and the second insert would fail
        # with an unclear error.
        with self._database.transaction(exclusive=True):
            self._check_is_there(new.experiment_id)
            known = self.find(new.experiment_id)
            if known is not None:
                raise StoreError(
                    f"experiment {new.experiment_id} is in the queue of {known.owner} on {known.host} already, with "
                    f"priority {known.priority}"
                )
            self._database.execute(
                "INSERT INTO queue (experiment_id, host, owner, priority, slots, max_trials, added) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    new.experiment_id,
                    text(new.host),
                    text(new.owner),
                    new.priority,
                    new.slots,
                    new.max_trials,
                    time.time(),
                ],
            )
            added = self.find(new.experiment_id)
            assert added is not None
            return added

    def find(self, experiment_id: int) -> Entry | None:
        found = self._database.execute(f"{_ENTRIES} WHERE experiment_id = ?", [experiment_id])
        return Entry(*found[0]) if found else None

    def entries(self, host: str, owner: str) -> list[Entry]:
        found = self._database.execute(
            f"{_ENTRIES} WHERE host = ? AND owner = ? ORDER BY priority, id", [text(host), text(owner)]
        )
        return [Entry(*row) for row in found]

    def lengths(self) -> dict[tuple[str, str], int]:
        found = self._database.execute(
            "SELECT host, owner, COUNT(*) FROM queue GROUP BY host, owner ORDER BY host, owner"
        )
        return {(host, owner): count for host, owner, count in found}

    def set_priority(self, experiment_id: int, priority: int) -> Entry:
        _check(priority)
        with self._database.transaction():
            self._database.execute("UPDATE queue SET priority = ? WHERE experiment_id = ?", [priority, experiment_id])
            changed = self.find(experiment_id)
            if changed is None:
                self._check_is_there(experiment_id)
                raise StoreError(f"experiment {experiment_id} is not in the queue")
            return changed

    def remove(self, experiment_id: int) -> bool:
        with self._database.transaction():
            was_there = self.find(experiment_id) is not None
            self._database.execute("DELETE FROM queue WHERE experiment_id = ?", [experiment_id])
            return was_there

    def _check_is_there(self, experiment_id: int) -> None:
        """Raise `NotFoundException` if the experiment does not exist."""
        if not self._database.execute("SELECT 1 FROM experiments WHERE id = ?", [experiment_id]):
            raise NotFoundException.of("experiment", experiment_id)


def _check(priority: int) -> None:
    """Raise `StoreError` if a priority is out of range."""
    first, last = HIGHEST_PRIORITY, LOWEST_PRIORITY
    if not first <= priority <= last:
        raise StoreError(f"a priority is a whole number from {first}, which goes first, to {last}, not {priority}")
