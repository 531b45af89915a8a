"""`/api/changes`: whether anything in the store has changed. The page polls it."""

from __future__ import annotations

import time
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from typing_extensions import TypedDict

from determined.web.answers import Route
from determined.web.polling.watch import Seen
from determined.web.state import ServerState, state_of

router = APIRouter(route_class=Route)


class StoreState(TypedDict):
    """The store that is shown. `problem` says why it cannot be read.

    `copied` is the time of the copy that is shown, if this user cannot write the store and it has changed since.
    """

    place: str
    kind: Literal["sqlite", "postgresql"]
    problem: str | None
    copied: float | None


class Changes(TypedDict):
    """The version of the store's content; it differs from `seen` if anything was written since."""

    version: str
    changed: bool
    store: StoreState
    running: int
    now: float


@router.get("/api/changes")
async def changes(request: Request, seen: str = "") -> Changes:
    """Return whether the store has changed since version `seen`."""
    # Most polls do not come here: `polls.py` answers where looking at the store takes less time than a thread would.
    state = state_of(request)
    return changes_since(state, seen, await run_in_threadpool(state.watch.look))


def changes_since(state: ServerState, seen: str, found: Seen) -> Changes:
    """Return the answer to a poll: the state of the store, and whether its version differs from `seen`."""
    connections = state.connections
    return {
        "version": found.version,
        "changed": found.version != seen,
        "store": {
            "place": connections.shown_place,
            "kind": "postgresql" if connections.is_postgres else "sqlite",
            "problem": found.problem,
            "copied": connections.copied_at,
        },
        "running": found.running,
        "now": time.time(),
    }
