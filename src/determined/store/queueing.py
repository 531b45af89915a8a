"""The queue: experiments that wait for their turn on a machine, or have it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

DEFAULT_PRIORITY = 42
HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 99


class NewEntry(NamedTuple):
    """An experiment that is to wait on that machine, for that user; `priority` 1 goes first, 99 last."""

    experiment_id: int
    host: str
    owner: str
    priority: int = DEFAULT_PRIORITY
    slots: int | None = None  # how many it may use at most
    max_trials: int | None = None  # to which its search is to be extended


class Entry(NamedTuple):
    """An experiment in the queue. Among those of the same priority the smaller `order` goes first."""

    order: int
    experiment_id: int
    host: str
    owner: str
    priority: int
    slots: int | None
    max_trials: int | None
    added: float


class Queue(Protocol):
    """Each experiment is in it at most once. What cannot be done is a `StoreError` that says why."""

    def add(self, new: NewEntry) -> Entry:
        """Put it at the end of those of its priority; one that is in the queue already is refused."""
        ...

    def find(self, experiment_id: int) -> Entry | None: ...

    def entries(self, host: str, owner: str) -> list[Entry]:
        """Those of a machine and a user, as they take their turns."""
        ...

    def lengths(self) -> dict[tuple[str, str], int]:
        """How many there are for each machine and user, by name."""
        ...

    def set_priority(self, experiment_id: int, priority: int) -> Entry:
        """Its place among those of that priority is the one that it would have had from the beginning."""
        ...

    def remove(self, experiment_id: int) -> bool:
        """Whether it was there."""
        ...
