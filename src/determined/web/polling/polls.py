"""`Polls`: answers the poll of the page without the web framework, which would take most of the time."""

from __future__ import annotations

import re

from determined.web.api.changes import changes_since
from determined.web.asgi import App, Receive, Scope, Send, send_json
from determined.web.state import ServerState

_PATH = "/api/changes"
_QUERY = re.compile(rb"(?:seen=([0-9a-f]*-\d*|))?")


class Polls:
    """ASGI middleware that answers `/api/changes` if that takes microseconds. Other requests are passed on."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "http" and scope["path"] == _PATH and scope["method"] == "GET":
            state, query = scope["app"].state.server, _QUERY.fullmatch(scope["query_string"])
            assert isinstance(state, ServerState)
            if query is not None and state.watch.is_quick:
                await send_json(send, 200, changes_since(state, (query[1] or b"").decode(), state.watch.look()))
                return
        await self._app(scope, receive, send)
