"""`create_app`: the application that answers the requests of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI

from determined.built_page import STATIC
from determined.store.open import checked_place
from determined.web.api import (
    actions,
    changes,
    checkpoints,
    code,
    compare,
    curves,
    decisions,
    experiments,
    export,
    failures,
    log_file,
    logs,
    metrics,
    models,
    queue,
    trials,
)
from determined.web.errors import handle_errors
from determined.web.pages import add_pages
from determined.web.polling.polls import Polls
from determined.web.state import ServerState

_THREADS = 8

ROUTERS = (
    changes.router,
    trials.router,
    experiments.router,
    metrics.router,
    checkpoints.router,
    code.router,
    curves.router,
    logs.router,
    log_file.router,
    compare.router,
    decisions.router,
    failures.router,
    queue.router,
    models.router,
    actions.router,
    export.router,
)


def create_app(place: str | None = None, static: Path = STATIC) -> FastAPI:
    """Return the application for the store at a place. Only a `Guard` may pass requests on to it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.state.server = ServerState(checked_place() if place is None else place)
    app.state.static = static
    handle_errors(app)
    app.add_middleware(Polls)
    for router in ROUTERS:
        app.router.routes += router.routes  # added directly: `include_router` would create every route again
    add_pages(app, static)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Limit the worker threads, and with them the connections to the store; close the connections at shutdown."""
    to_thread.current_default_thread_limiter().total_tokens = _THREADS
    yield
    app.state.server.close()
