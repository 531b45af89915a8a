"""The daemon's connection to the store, which survives outages and a store file that is deleted or replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from determined.errors import StoreUnavailable
from determined.store.databases import location as places
from determined.store.open import open_store, patience
from determined.store.store import Store

T = TypeVar("T")


class DaemonStore:
    """A store connection that is reopened after an outage."""

    def __init__(self, place: str, say: Callable[[str], None]) -> None:
        self._place, self._say = place, say
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._unavailable_since: float | None = None

    @property
    def is_unavailable(self) -> bool:
        """Whether the last query failed because the store was unavailable."""
        return self._unavailable_since is not None

    def open(self) -> Store:
        """Open the store and remember which file it is."""
        self._store = open_store(self._place)
        # After opening, which may create the file.
        self._file = _file_of(self._place)
        return self._store

    def query(self, act: Callable[[Store], T], *, without_limit: bool) -> T | None:
        """Run a query and return its result, or None while the store is unavailable.

        After DET_STORE_PATIENCE seconds of unavailability the error is raised, unless `without_limit`.
        """
        try:
            if self._file is not None and _file_of(self._place) is None:
                # Opening it would create an empty store, which would be in the way of a file that the user is about to
                # put there, for example a backup.
                raise StoreUnavailable(f"the store file {self._place} does not exist")
            done = act(self._store or self.open())
        except StoreUnavailable as error:
            # The connection is broken; the next query opens a new one.
            self._close()
            # Logged once for each outage.
            if self._unavailable_since is None:
                self._unavailable_since = time.monotonic()
                self._say(f"{error}; retrying")
            # Without runners nothing is lost if the daemon exits: the queue stays in the store.
            elif not without_limit and time.monotonic() - self._unavailable_since > patience():
                raise
            return None
        self._unavailable_since = None
        return done

    def was_replaced(self) -> bool:
        """Return whether the store file was replaced.

        The open file is then no longer the store, even if it is readable.
        """
        # A missing file is an outage, not a replacement: a backup may be about to be moved there.
        return _file_of(self._place) not in (None, self._file)

    def reopen(self) -> None:
        """Close the connection; the next query opens the new file."""
        self._close()
        self._file = _file_of(self._place)

    def _close(self) -> None:
        """Close the connection if there is one."""
        if self._store is not None:
            self._store.close()
            self._store = None


def _file_of(place: str) -> tuple[int, int] | None:
    """Return device and inode of a store file; None if it does not exist, or for a PostgreSQL server."""
    if places.is_postgres(place):
        return None
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
