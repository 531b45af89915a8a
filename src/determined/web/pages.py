"""The page itself: one HTML file for every address that is not below `/api/`, and the files that it loads."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from determined.built_page import HOW_TO_BUILD

_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".txt": "text/plain",
}


def add_pages(app: FastAPI, static: Path) -> None:
    """Add the routes of the page and its files, which are the same for every user and contain no data."""

    @app.get("/static/{name}", include_in_schema=False)
    @app.head("/static/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        # Only names that the directory lists are opened, so no spelling of a name leads elsewhere.
        known = {path.name: path for path in static.iterdir()} if static.is_dir() else {}
        path = known.get(name)
        if path is None or path.is_symlink() or not path.is_file():
            raise HTTPException(404, f"the page has no file {name[:100]!r}")
        # no-cache: the browser asks each time, because an upgrade changes the content under the same name.
        return Response(
            path.read_bytes(),
            media_type=_TYPES.get(path.suffix, "application/octet-stream"),
            headers={"cache-control": "no-cache"},
        )

    @app.get("/{path:path}", include_in_schema=False)
    @app.head("/{path:path}", include_in_schema=False)
    def shell(path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise HTTPException(404, "the server has no such address")
        index = static / "index.html"
        if not index.is_file():
            return Response(HOW_TO_BUILD, 503, media_type="text/plain")
        return Response(index.read_bytes(), media_type="text/html")
