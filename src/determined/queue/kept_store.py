"""The store of the daemon: it may be away for a while, and its file may be deleted or replaced by another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from determined.errors import StoreUnavailable
from determined.store import place as places
from determined.store.base import Store
from determined.store.open import open_store, patience

T = TypeVar("T")


class KeptStore:
    def __init__(self, place: str, say: Callable[[str], None]) -> None:
        self._place, self._say = place, say
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._away_since: float | None = None

    @property
    def is_away(self) -> bool:
        return self._away_since is not None

    def open(self) -> Store:
        self._store = open_store(self._place)
        self._file = _file_of(self._place)
        return self._store

    def ask(self, act: Callable[[Store], T], *, for_ever: bool) -> T | None:
        """None while it is away, as a server that restarts; after DET_STORE_PATIENCE seconds that is an error.

        Not if it is to be waited for `for_ever`.
        """
        try:
            if self._file is not None and _file_of(self._place) is None:
                # A new one may be on its way, and what we made in its place would be in its way.
                raise StoreUnavailable(f"the store {self._place} is gone")
            done = act(self._store or self.open())
        except StoreUnavailable as error:
            self._close()
            if self._away_since is None:
                self._away_since = time.monotonic()
                self._say(f"{error}; it is tried again")
            elif not for_ever and time.monotonic() - self._away_since > patience():
                raise
            return None
        self._away_since = None
        return done

    def is_another_file(self) -> bool:
        """A file that was replaced is not the store any more, even if we still could read it."""
        return _file_of(self._place) not in (None, self._file)

    def take_new_file(self) -> None:
        self._close()
        self._file = _file_of(self._place)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _file_of(place: str) -> tuple[int, int] | None:
    """What tells it from another file of that name; None for one that is gone, and for a server."""
    if places.is_postgres(place):
        return None
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
