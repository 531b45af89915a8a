"""Runs the actions of a writer on its store, and retries them while it is unavailable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from determined.errors import StoreError, StoreFull, StoreUnavailable
from determined.store.rows import Row

logger = logging.getLogger("determined.store")


class RowStore(Protocol):
    """The part of a `Store` or `WorkerStore` that a writer uses."""

    @property
    def place(self) -> str: ...

    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=RowStore)
T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # exponential backoff between retries
# A full disk rarely becomes free without a cleanup, unlike a server that restarts, so the run fails sooner.
_SECONDS_ON_A_FULL_DISK = 15.0
_SECONDS_TO_OPEN = 10.0  # shorter than the patience: a wrong address should fail soon


class Retries(Generic[S]):
    """Opens a store at the first action, and retries actions for up to `patience` seconds. For one thread."""

    def __init__(self, open_store: Callable[[], S], patience: float) -> None:
        self._open_store = open_store
        self._patience = patience
        self.store: S | None = None

    def limit_patience(self, seconds: float) -> None:
        """Retry at most this long from now on, also an action that another thread is running."""
        self._patience = min(self._patience, seconds)

    def run(self, action: Callable[[S], T]) -> T:
        """Run an action on the store and retry it with backoff while the store is unavailable, up to the patience."""
        pause, since = _FIRST_PAUSE, 0.0
        while True:
            try:
                if self.store is None:
                    self.store = self._open_store()
                result = action(self.store)
            except StoreUnavailable as error:
                # The monotonic clock: setting the wall clock must not end or extend the patience.
                now = time.monotonic()
                since = since or now
                patience = self._seconds_to_retry(error)
                # The pause counts as well, so that the time given in the message is not exceeded.
                if now - since + pause > patience:
                    raise StoreError(f"{error} (tried for {patience:g} seconds; see DET_STORE_PATIENCE)") from error
                # Only at the first failure, so that an outage is one warning and not one per retry.
                if since == now:
                    logger.warning("%s; reports are queued and retried", error)
                time.sleep(min(pause, patience))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if since:
                    logger.warning("the store %s is available again; no report was lost", self.store.place)
                return result

    def close(self) -> None:
        """Close the store if it was opened."""
        if self.store is not None:
            self.store.close()

    def _seconds_to_retry(self, error: StoreUnavailable) -> float:
        """Return how long to retry after this error, in seconds."""
        if self.store is None:
            return min(self._patience, _SECONDS_TO_OPEN)
        return min(self._patience, _SECONDS_ON_A_FULL_DISK) if isinstance(error, StoreFull) else self._patience
