"""The server of the page without a network: requests pass the guard, as in `det ui`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from determined.web.app import create_app
from determined.web.guard import Guard, allowed_hosts, cookie_name
from determined.web.openapi import document
from determined.web.sessions import Sessions

PORT = 8642
ORIGIN = f"http://127.0.0.1:{PORT}"


class Site:
    """A server that shows one store."""

    def __init__(self, place: str, static: Path) -> None:
        self.app = create_app(place, static)
        self.sessions = Sessions()
        hosts = allowed_hosts("127.0.0.1", ["box.example"])
        self.guard = Guard(self.app, self.sessions, hosts, cookie_name("127.0.0.1", PORT))

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *error: object) -> None:
        self.app.state.server.close()

    @property
    def bearer(self) -> dict[str, str]:
        """Return the headers that a script sends."""
        return {"Authorization": f"Bearer {self.sessions.token}"}

    def session(self) -> dict[str, str]:
        """Return the headers that the page sends after a login."""
        answer = self.ask("POST", "/login", json={"token": self.sessions.token})
        assert answer.status_code == 200, answer.text
        cookie = answer.headers["set-cookie"].partition(";")[0]
        return {"Cookie": cookie, "X-Det-Session": answer.json()["session"]}

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        """Send a request exactly as it is given."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.guard)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(send())

    def get(self, path: str, status: int = 200) -> Any:
        """Return the answer to a script's request."""
        answer = self.ask("GET", path, self.bearer)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        """Return the answer to a script's request."""
        answer = self.ask("POST", path, self.bearer, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def act(self, action: str, ids: list[Any], **options: Any) -> list[Any]:
        """Return the results of an action."""
        results: list[Any] = self.post("/api/actions", {"action": action, "ids": ids, "options": options})["results"]
        return results

    def routes(self) -> list[tuple[str, str]]:
        """Return the method and an address of every route of the OpenAPI document."""
        values = {"experiment_id": "1", "trial_id": "1", "model_id": "1", "checkpoint_id": "a"}
        return [
            (method.upper(), path.format(**values))
            for path, methods in document()["paths"].items()
            for method in methods
        ]
