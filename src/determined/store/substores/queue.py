"""The queue: experiments that wait for slots on a machine or hold some."""

from __future__ import annotations

import time
from typing import NamedTuple

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.sql.columns import text

# Default and range are those of Determined's `resources.priority`.
DEFAULT_PRIORITY = 42
HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 99

_ENTRIES = "SELECT id, experiment_id, host, owner, priority, slots, max_trials, added FROM queue"


class NewEntry(NamedTuple):
    """An experiment to enqueue on a machine for a user. Priority 1 is scheduled first, 99 last."""

    experiment_id: int
    host: str
    owner: str
    priority: int = DEFAULT_PRIORITY
    slots: int | None = None  # the maximum number of slots; None means no limit
    max_trials: int | None = None  # the number of trials to extend its search to


class Entry(NamedTuple):
    """An experiment in the queue. Within a priority, the smaller `order` is scheduled first."""

    order: int
    experiment_id: int
    host: str
    owner: str
    priority: int
    slots: int | None
    max_trials: int | None
    added: float


class Queue:
    """The queued experiments of all machines and users. An experiment is in the queue at most once.

    Operations that cannot be done raise a `StoreError` with the reason.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewEntry) -> Entry:
        """Append an experiment to the queue of its priority. Raise `StoreError` if it is already queued."""
        _check(new.priority)
        # Exclusive, otherwise two commands could both find the experiment absent, and the second insert would fail
        # with an unclear error.
        with self._database.transaction(exclusive=True):
            self._check_exists(new.experiment_id)
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
            # Read back for its id, which orders the entries of one priority.
            added = self.find(new.experiment_id)
            assert added is not None
            return added

    def find(self, experiment_id: int) -> Entry | None:
        """Return the entry of an experiment; None if it is not in the queue."""
        found = self._database.execute(f"{_ENTRIES} WHERE experiment_id = ?", [experiment_id])
        return Entry(*found[0]) if found else None

    def entries(self, host: str, owner: str) -> list[Entry]:
        """Return the entries of a user on a machine in scheduling order."""
        found = self._database.execute(
            # By id and not by time, because clocks can be set back.
            f"{_ENTRIES} WHERE host = ? AND owner = ? ORDER BY priority, id",
            [text(host), text(owner)],
        )
        return [Entry(*row) for row in found]

    def lengths(self) -> dict[tuple[str, str], int]:
        """Return the number of entries by (host, owner), sorted."""
        found = self._database.execute(
            "SELECT host, owner, COUNT(*) FROM queue GROUP BY host, owner ORDER BY host, owner"
        )
        return {(host, owner): count for host, owner, count in found}

    def set_priority(self, experiment_id: int, priority: int) -> Entry:
        """Change the priority of an entry. Within the new priority it is ordered by the time at which it was added."""
        _check(priority)
        with self._database.transaction():
            self._database.execute("UPDATE queue SET priority = ? WHERE experiment_id = ?", [priority, experiment_id])
            changed = self.find(experiment_id)
            if changed is None:
                self._check_exists(experiment_id)
                raise StoreError(f"experiment {experiment_id} is not in the queue")
            return changed

    def remove(self, experiment_id: int) -> bool:
        """Remove an experiment from the queue. Return whether it was queued."""
        with self._database.transaction():
            # Asked first, because `execute` returns no number of deleted rows.
            was_there = self.find(experiment_id) is not None
            self._database.execute("DELETE FROM queue WHERE experiment_id = ?", [experiment_id])
            return was_there

    def _check_exists(self, experiment_id: int) -> None:
        """Raise `NotFoundException` if the experiment does not exist."""
        if not self._database.execute("SELECT 1 FROM experiments WHERE id = ?", [experiment_id]):
            raise NotFoundException.of("experiment", experiment_id)


def _check(priority: int) -> None:
    """Raise `StoreError` if a priority is out of range."""
    first, last = HIGHEST_PRIORITY, LOWEST_PRIORITY
    if not first <= priority <= last:
        raise StoreError(f"a priority is a whole number from {first} (highest) to {last}, not {priority}")
