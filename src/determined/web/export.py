"""Export a view of the page as one HTML file that needs no server: it contains the page and the server's answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import FastAPI

from determined.built_page import HOW_TO_BUILD, document, is_built
from determined.errors import DeterminedError
from determined.web.answers import encoded
from determined.web.export_requests import requests_of

_MOST_BYTES = 200 * 2**20  # of answers; a browser takes long for a larger file


def export_page(app: FastAPI, static: Path, address: str, requests: Sequence[str] = ()) -> bytes:
    """Return the view at an address as an HTML file. Without `requests`, those that the address needs are included."""
    if not is_built(static):
        raise DeterminedError(HOW_TO_BUILD)
    answers: dict[str, Any] = {}
    size = 0

    def ask(path: str) -> Any:
        """Return the answer to a request, and keep it for the file; None if it is an error."""
        nonlocal size
        key = canonical(path)
        if key not in answers:
            status, body = get(app, path)
            if status != 200:
                return None
            size += len(body)
            if size > _MOST_BYTES:
                raise DeterminedError("the view is too large for one file: choose fewer trials or columns")
            try:
                answers[key] = json.loads(body)
            except ValueError:
                raise DeterminedError(f"{path[:100]} is a download, which a page cannot show") from None
        return answers[key]

    for path in requests:
        if path.startswith("/api/") and not path.startswith(("/api/changes", "/api/export")):
            if not path.isascii():
                raise DeterminedError(f"not an address: {path[:100]!r}")
            ask(path)
    if not requests:
        requests_of(address, ask)
    content = encoded({"address": address, "created": time.time(), "answers": answers}).decode()
    return document(static, "page.js", content).encode()


def canonical(path: str) -> str:
    """Return a path with sorted parameters, encoded as in browsers: the key of its answer in an exported page."""
    place, _, query = path.partition("?")
    pairs = sorted(parse_qsl(query, keep_blank_values=True), key=lambda pair: pair[0])
    return f"{place}?{'&'.join(f'{_encoded(name)}={_encoded(value)}' for name, value in pairs)}" if pairs else place


def _encoded(text: str) -> str:
    """Encode a text as URLSearchParams does: a space is a plus sign, and only letters, digits and `*-._` stay."""
    return quote(text, safe="* ").replace("~", "%7E").replace(" ", "+")


def get(app: FastAPI, path: str) -> tuple[int, bytes]:
    """Make a GET request to the application in this process; return the status and the body of the response."""
    split = urlsplit(path)
    status, parts = 500, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "GET",
        "path": split.path,
        "raw_path": split.path.encode(),
        "query_string": split.query.encode(),
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 0),
        "root_path": "",
    }
    # A new event loop: the route that exports runs in a thread, which has none.
    asyncio.run(app(scope, receive, send))
    return status, b"".join(parts)
