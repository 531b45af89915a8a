"""What all routes of one server share, and how they reach the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import Request

from determined.curves.cache import CurveCache, default_path
from determined.store.store import Store
from determined.web.connections import Connections
from determined.web.statistics import Statistics
from determined.web.watch import Watch


@dataclass(frozen=True)
class ServerState:
    """The store that a server shows, and what it has derived from it."""

    connections: Connections
    watch: Watch
    cache: CurveCache
    statistics: Statistics

    @classmethod
    def of_place(cls, place: str) -> ServerState:
        """Return the state of a server for the store at a place, which is opened by the first request."""
        connections = Connections(place)
        cache = CurveCache(default_path())
        return cls(connections, Watch(connections), cache, Statistics(connections, cache))

    def close(self) -> None:
        """Close all connections."""
        self.statistics.close()
        self.watch.close()
        self.connections.close()
        self.cache.close()


def state_of(request: Request) -> ServerState:
    """Return the state of the server that answers a request."""
    state = request.app.state.server
    assert isinstance(state, ServerState)
    return state


@contextmanager
def reading(request: Request) -> Iterator[Store]:
    """Use the store for reading."""
    with state_of(request).connections.reading() as store:
        yield store


def version(request: Request) -> str:
    """Return the present version of the store's content. Ask before reading, so that no change is missed."""
    return state_of(request).watch.look().version
