"""The store that commands read, open for as long as it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from determined.errors import StoreUnavailable

if TYPE_CHECKING:
    from determined.store.base import Store

T = TypeVar("T")

_SECONDS_BETWEEN_TRIES = 0.5


@contextmanager
def opened_store() -> Iterator[Store]:
    from determined.store.open import open_store

    store = open_store()
    try:
        yield store
    finally:
        store.close()


def patiently(read: Callable[[], T]) -> T:
    """For commands that watch for hours: a store that is away for a while, as a server that restarts, is waited for."""
    from determined.store.open import patience

    deadline = time.monotonic() + patience()
    while True:
        try:
            return read()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
