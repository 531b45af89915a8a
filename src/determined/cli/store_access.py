"""Open the store for a command, and retry while it is unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from determined.errors import StoreUnavailable

if TYPE_CHECKING:
    from determined.store.store import Store

T = TypeVar("T")

# Short compared with the restart of a server, and rare enough not to load one that is starting.
_SECONDS_BETWEEN_TRIES = 0.5


@contextmanager
def opened_store() -> Iterator[Store]:
    """Open the store and close it at the end of the block."""
    # Imported on use, because `det --help` opens no store.
    from determined.store.open import open_store

    store = open_store()
    try:
        yield store
    finally:
        store.close()


def retry_while_unavailable(read: Callable[[], T]) -> T:
    """Call `read`, and retry while the store is unavailable, for example because its server restarts.

    For commands that watch for hours. The error is raised after the time that DET_STORE_PATIENCE sets.
    """
    from determined.store.open import patience

    deadline = time.monotonic() + patience()
    while True:
        try:
            return read()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
