"""The connection to a store that the objects of the SDK share, usable from any thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from determined.console_log import show_levels
from determined.errors import StoreUnavailable

if TYPE_CHECKING:
    from determined.store.store import Store

T = TypeVar("T")

# A server that restarts is back within seconds.
_SECONDS_BETWEEN_ATTEMPTS = 0.5


class Session:
    """A store that is opened on first use."""

    def __init__(self, place: str | None) -> None:
        show_levels()
        self._place = place
        # A connection to the store must be used by one thread at a time.
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._pid = 0

    @property
    def place(self) -> str:
        """The file or URL of the store, including the password: for processes that are started, never for display."""
        from determined.store.open import checked_place

        if self._place is None:
            self._place = checked_place()
        return self._place

    @property
    def opened(self) -> bool:
        """Whether the store is open."""
        return self._store is not None

    def read(self, query: Callable[[Store], T]) -> T:
        """Run a query and return its result.

        It is retried for a limited time while the store is unavailable, for example during a restart of its server.
        """
        from determined.store.open import patience

        deadline = time.monotonic() + patience()
        while True:
            try:
                # Only reads come here; repeating them is safe.
                return self.write(query)
            except StoreUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_SECONDS_BETWEEN_ATTEMPTS)

    def write(self, change: Callable[[Store], T]) -> T:
        """Run a non-idempotent operation once and return its result.

        It is not retried: the store may have done it before the connection broke.
        """
        with self._lock:
            return change(self._open())

    def close(self) -> None:
        """Close the store; the next call opens it again. A forked child leaves its parent's connection alone."""
        with self._lock:
            if self._store is not None and self._pid == os.getpid():
                # Closing a connection that a fork inherited would end it for the parent as well.
                self._store.close()
            self._store = None

    def _open(self) -> Store:
        """Return the store; open it on first use and after a fork."""
        from determined.store.open import open_store

        if self._store is None or self._pid != os.getpid():  # a forked child must not use its parent's connection
            self._store, self._pid = open_store(self.place), os.getpid()
        return self._store


def utc_datetime(seconds: float | None) -> datetime | None:
    """Return a time of the store as a datetime in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
