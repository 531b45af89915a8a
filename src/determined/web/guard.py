"""`Guard`: the ASGI layer that every request passes first, and that decides whether the application gets it.

It denies by default: without the token or a session, only the static page, its files and `POST /login` are answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from determined.errors import DeterminedError
from determined.web.asgi import App, Receive, Scope, Send, replayed, send_json, with_headers
from determined.web.checked_request import CheckedRequest, Refused
from determined.web.sessions import Sessions

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Guard:
    """Checks every request, then passes it on to `app`."""

    app: App
    sessions: Sessions
    hosts: frozenset[str]
    cookie: str  # the name of the session cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request on to the application; answer logins and refused requests here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = with_headers(send)
        try:
            request = CheckedRequest(scope)
            self._check_origin(request)
            # Before the body is read: other users must not fill the memory with bodies that are refused in the end.
            if not request.is_public and not request.is_login:
                await self._check_credentials(request)
            body = await request.body(receive)
            if request.is_login:
                await self._log_in(request, body, guarded)
                return
        except Refused as refused:
            content = {"error": refused.reason, "hint": refused.hint}
            await send_json(guarded, refused.status, content, refused.headers)
            return
        await self.app(scope, replayed(body, receive), guarded)

    def _check_origin(self, request: CheckedRequest) -> None:
        """Refuse requests that another site causes, and those to a host name that is not allowed (DNS rebinding)."""
        if request.host_name not in self.hosts:
            raise Refused(
                403,
                "this server does not answer to the name in the address",
                "open it as http://127.0.0.1 or http://localhost, or start it with det ui --allow-host NAME",
            )
        if request.header("sec-fetch-site") not in (None, "same-origin", "none") and not request.is_navigation:
            raise Refused(403, "requests of other sites are not answered")
        if request.has_foreign_origin:
            raise Refused(403, "requests of other sites are not answered")

    async def _check_credentials(self, request: CheckedRequest) -> None:
        """Refuse a request without the token or both ids of a session, and a change that is not made by the page."""
        bearer = request.header("authorization")
        if bearer is not None:
            scheme, _, token = bearer.partition(" ")
            right = scheme.lower() == "bearer" and self.sessions.is_token(token.strip())
            await self._slow_down(right)
            if not right:
                raise Refused(401, "the token is wrong", "the file with the token is named in the output of det ui")
            return
        in_page = request.header("x-det-session") or ""
        if not any(self.sessions.is_session(cookie, in_page) for cookie in request.cookies(self.cookie)):
            raise Refused(401, "there is no session", "log in with the token, or start det ui again")
        if request.method == "POST" and not request.is_of_the_page:
            raise Refused(403, "a change needs the origin of the page")

    async def _log_in(self, request: CheckedRequest, body: bytes, send: Send) -> None:
        """Answer `POST /login` with a new session for a valid code or token."""
        if request.method != "POST":
            raise Refused(405, "only POST is answered here", allow="POST")
        code, token = _secret_in(body)
        session = self.sessions.log_in(code=code, token=token)
        await self._slow_down(session is not None)
        if session is None:
            raise Refused(
                401,
                "this code is not valid any more" if code is not None else "the token is wrong",
                "a code works once, for a minute: use the token, or start det ui again" if code is not None else None,
            )
        cookie, in_page = session
        value = f"{self.cookie}={cookie}; HttpOnly; SameSite=Strict; Path=/"
        await send_json(send, 200, {"session": in_page}, [(b"set-cookie", value.encode())])

    async def _slow_down(self, right: bool) -> None:
        """Count a right or wrong secret, and delay the answer after many wrong ones."""
        delay = self.sessions.count(right=right)
        if delay:
            await asyncio.sleep(delay)


def allowed_hosts(host: str, more: Iterable[str]) -> frozenset[str]:
    """Return the names under which the server answers: loopback, the address it listens on, and given ones.

    Raise DeterminedError for a given name that no request could have.
    """
    return frozenset(name.lower().strip("[]").rstrip(".") for name in (*_LOOPBACK, host, *map(_host_name, more)))


def _host_name(name: str) -> str:
    """Return a host name or an address as it was given; raise DeterminedError if it is neither."""
    try:
        is_address = bool(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        is_address = False
    if not is_address and not _HOST_NAME.fullmatch(name):
        raise DeterminedError(
            f"--allow-host takes a host name or an address, such as gpu-box, without http:// and port; got {name!r}"
        )
    return name


def cookie_name(host: str, port: int) -> str:
    """Return the name of the session cookie of the server that listens on a port of this machine.

    Browsers share cookies between all ports of a host, and through `ssh -L` the servers of several machines are all
    called localhost: with the same name, the login of one would end the session of another. The name stays the same
    when the server is started again, so that no cookies accumulate.
    """
    machine = hashlib.sha256(f"{socket.gethostname()} {host}".encode()).hexdigest()[:8]
    return f"det-session-{port}-{machine}"


def _secret_in(body: bytes) -> tuple[str | None, str | None]:
    """Return the code and the token in the body of a login: one of them is given, the other is None."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and len(content) == 1:
        ((name, value),) = content.items()
        if name in ("code", "token") and isinstance(value, str):
            return (value, None) if name == "code" else (None, value)
    raise Refused(400, 'expected {"code": "..."} or {"token": "..."}')
