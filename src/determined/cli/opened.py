"""The store that commands read, open for as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from determined.store.base import Store


@contextmanager
def opened_store() -> Iterator[Store]:
    from determined.store.open import open_store

    store = open_store()
    try:
        yield store
    finally:
        store.close()
