"""The state that all routes of one server share, and their access to the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import Request

from determined.store.store import Store
from determined.web.connections import Connections
from determined.web.polling.recent_answers import RecentAnswers
from determined.web.polling.watch import Watch
from determined.web.tables.failure_cache import FailureCache
from determined.web.tables.search_histories import SearchHistories

if TYPE_CHECKING:
    from determined.curves.cache import CurveCache
    from determined.web.tables.statistics import Statistics


# Verifying reads gigabytes. The requests that do share the threads of all others.
MOST_VERIFICATIONS = 2


class ServerState:
    """The store that a server shows, which the first request opens, and the caches of data derived from it."""

    def __init__(self, place: str) -> None:
        self.connections = Connections(place)
        self.watch = Watch(self.connections)
        self._lock = threading.RLock()
        self.recent_curves: RecentAnswers[Any] = RecentAnswers()
        self.searches = SearchHistories()
        self.failures = FailureCache()
        self.verifications = threading.BoundedSemaphore(MOST_VERIFICATIONS)
        self._cache: CurveCache | None = None
        self._statistics: Statistics | None = None

    # The next two properties import numpy, which the first request does not need.

    @property
    def cache(self) -> CurveCache:
        """The cache of derived curves, opened on first use."""
        from determined.curves.cache import CurveCache, default_path

        with self._lock:
            self._cache = self._cache or CurveCache(default_path())
            return self._cache

    @property
    def statistics(self) -> Statistics:
        """The statistics of metrics, created on first use."""
        from determined.web.tables.statistics import Statistics

        with self._lock:
            self._statistics = self._statistics or Statistics(self.connections, self.cache, self.watch.count_change)
            return self._statistics

    def close(self) -> None:
        """Stop the statistics thread, and close the cache and all connections."""
        with self._lock:
            cache, statistics = self._cache, self._statistics
        if statistics is not None:
            statistics.close()
        self.watch.close()
        self.connections.close()
        if cache is not None:
            cache.close()


def state_of(request: Request) -> ServerState:
    """Return the state of the server that answers a request."""
    state = request.app.state.server
    assert isinstance(state, ServerState)
    return state


@contextmanager
def reading(request: Request) -> Iterator[Store]:
    """Yield the store for reading; see `Connections.reading`."""
    with state_of(request).connections.reading() as store:
        yield store


def version(request: Request) -> str:
    """Return the current version of the store's content. Call this before reading, so that no change is missed."""
    return state_of(request).watch.look().version
