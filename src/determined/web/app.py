"""`create_app`: the application that answers the requests of the page."""

from __future__ import annotations

from fastapi import FastAPI

from determined.web.api import (
    actions,
    changes,
    checkpoints,
    code,
    compare,
    curves,
    experiments,
    export,
    logs,
    metrics,
    queue,
    registry,
    trials,
)
from determined.web.api.shapes import Problem

_ROUTERS = (
    changes.router,
    trials.router,
    experiments.router,
    metrics.router,
    checkpoints.router,
    code.router,
    curves.router,
    logs.router,
    compare.router,
    queue.router,
    registry.router,
    actions.router,
    export.router,
)


def create_app() -> FastAPI:
    """Return the application without the guard."""
    app = FastAPI(
        title="determined-pytorch",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        responses={422: {"model": Problem, "description": "An error"}},
    )
    for router in _ROUTERS:
        app.include_router(router)
    return app
