"""The OpenAPI document of the server, from which the types of the page are written; the server does not need it."""

from __future__ import annotations

from typing import Any, get_type_hints

from fastapi import FastAPI, Response

from determined.web.answers import Route
from determined.web.api.shapes import Problem
from determined.web.app import ROUTERS


def documented_routes() -> list[Route]:
    """Return all routes below `/api/`."""
    return [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]


def answer_type(route: Route) -> Any:
    """Return the type of a route's answers; None for a file."""
    found = get_type_hints(route.function, include_extras=True)["return"]
    return None if found is Response else found


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    app = FastAPI(title="determined-pytorch", responses={"default": {"model": Problem, "description": "An error"}})
    for route in documented_routes():
        app.add_api_route(
            route.path,
            route.function,
            methods=sorted(route.methods or ()),
            response_model=answer_type(route),
            responses=route.responses,
            response_class=route.response_class,
        )
    found = app.openapi()
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found
