"""The `Queue` interface: experiments that wait for slots on a machine or hold some, and their records."""

from __future__ import annotations

from typing import NamedTuple, Protocol

DEFAULT_PRIORITY = 42
HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 99


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


class Queue(Protocol):
    """The queued experiments of all machines and users. An experiment is in the queue at most once.

    Operations that cannot be done raise a `StoreError` with the reason.
    """

    def add(self, new: NewEntry) -> Entry:
        """Append an experiment to the queue of its priority. Raise `StoreError` if it is already queued."""
        ...

    def find(self, experiment_id: int) -> Entry | None: ...

    def entries(self, host: str, owner: str) -> list[Entry]:
        """Return the entries of a user on a machine in scheduling order."""
        ...

    def lengths(self) -> dict[tuple[str, str], int]:
        """Return the number of entries by (host, owner), sorted."""
        ...

    def set_priority(self, experiment_id: int, priority: int) -> Entry:
        """Change the priority of an entry. Within the new priority it is ordered by the time at which it was added."""
        ...

    def remove(self, experiment_id: int) -> bool:
        """Remove an experiment from the queue. Return whether it was queued."""
        ...
