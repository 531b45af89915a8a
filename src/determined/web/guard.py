"""`Guard`: the layer before everything else, which decides whether a request is answered at all.

It is plain ASGI and denies by default: without a session only the static page, its files and `POST /login` answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from determined.web.sessions import Sessions

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 4 * 2**20  # notes of a million characters fit
_BODY_SECONDS = 30.0
# A name or an address, and a port: nothing else, such as `name@`, that another reader would take for the host.
_HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^\s\[\]:/?#@\\]*)(?::\d*)?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_HEADER_PAIRS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Refused(Exception):
    """A request that is not answered, with the status and the reason that the client gets."""

    def __init__(self, status: int, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class Guard:
    """Checks every request, then passes it on to `app`."""

    app: App
    sessions: Sessions
    port: int
    hosts: frozenset[str]

    @property
    def cookie(self) -> str:
        """The name of the session cookie. The port is in it, because servers on all ports of a host share cookies."""
        return f"det-session-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        try:
            request = _Request(scope)
            self._check_origin(request)
            # Before the body is read: others must not fill the memory with bodies that are refused in the end.
            if not request.is_public and request.path != "/login":
                await self._check_credentials(request)
            body = await _read_body(request, receive)
            if request.path == "/login":
                await self._log_in(request, body, guarded)
                return
        except Refused as refused:
            await send_json(guarded, refused.status, {"error": refused.reason, "hint": refused.hint})
            return
        await self.app(scope, _replayed(body, receive), guarded)

    def _check_origin(self, request: _Request) -> None:
        """Refuse requests that another site, or a name that leads here by a trick of DNS, has caused."""
        if request.host_name not in self.hosts:
            raise Refused(
                403,
                "this server does not answer to the name in the address",
                "open it as http://127.0.0.1 or http://localhost, or start it with det ui --allow-host NAME",
            )
        if request.header("sec-fetch-site") not in (None, "same-origin", "none") and not request.is_navigation:
            raise Refused(403, "requests of other sites are not answered")
        origin = request.header("origin")
        if origin is not None and not request.is_own_origin(origin):
            raise Refused(403, "requests of other sites are not answered")

    async def _check_credentials(self, request: _Request) -> None:
        """Refuse a request without the token, or without both ids of a session."""
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
        if request.method == "POST" and "same-origin" not in (request.header("sec-fetch-site"), request.own_origin):
            raise Refused(403, "a change needs the origin of the page")

    async def _log_in(self, request: _Request, body: bytes, send: Send) -> None:
        """Answer `POST /login` with a new session for a valid code or token."""
        if request.method != "POST":
            raise Refused(405, "only POST is answered here")
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
        delay = self.sessions.count(right=right)
        if delay:
            await asyncio.sleep(delay)


def allowed_hosts(host: str, more: Iterable[str]) -> frozenset[str]:
    """Return the names under which the server answers: loopback, the address it listens on, and given ones."""
    return frozenset(name.lower().strip("[]") for name in (*_LOOPBACK, host, *more))


class _Request:
    """The parts of a request that are checked. Raises `Refused` if they cannot be read without doubt."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        if self.method not in ("GET", "HEAD", "POST"):
            raise Refused(405, f"{self.method} is not answered")
        raw = scope.get("raw_path") or scope["path"].encode()
        _check_path(raw)
        self.path: str = scope["path"]
        host = self.header("host")
        if host is None:
            raise Refused(400, "the request names no host")
        self.host = host.lower()
        named = _HOST.fullmatch(self.host)
        if named is None:
            raise Refused(400, "the host of the request cannot be read")
        self.host_name = named[1].strip("[]").rstrip(".")

    def header(self, name: str) -> str | None:
        """Return the value of a header. A repeated header is refused: two readers could choose different ones."""
        found = [value for key, value in self._headers if key == name.encode()]
        if len(found) > 1:
            raise Refused(400, f"the header {name} is repeated")
        return found[0].decode("latin-1") if found else None

    def cookies(self, name: str) -> list[str]:
        """Return the values of a cookie. Another server of the same host may have set a second one."""
        text = ";".join(value.decode("latin-1") for key, value in self._headers if key == b"cookie")
        pairs = (part.strip().partition("=") for part in text.split(";"))
        return [value for key, _, value in pairs if key == name]

    @property
    def is_public(self) -> bool:
        """Whether the request is for the page without data, or a file of it."""
        return self.method in ("GET", "HEAD") and self.path != "/api" and not self.path.startswith("/api/")

    @property
    def is_navigation(self) -> bool:
        """Whether a person follows a link to the page, which other sites may have."""
        return (
            self.is_public
            and not self.path.startswith("/static/")
            and self.header("sec-fetch-mode") == "navigate"
            and self.header("sec-fetch-dest") == "document"
        )

    def is_own_origin(self, origin: str) -> bool:
        """Return whether an origin is this server under the name and port that the request was sent to."""
        return origin.lower() in (f"http://{self.host}", f"https://{self.host}")

    @property
    def own_origin(self) -> str | None:
        """ "same-origin" if the request has the origin of the page."""
        origin = self.header("origin")
        return "same-origin" if origin is not None and self.is_own_origin(origin) else None


def _check_path(raw: bytes) -> None:
    """Refuse `..`, backslashes and control characters in a path, however often they are encoded."""
    path = raw
    for _ in range(5):
        if b"\\" in path or any(part in (b".", b"..") for part in path.split(b"/")) or min(path, default=32) < 32:
            raise Refused(400, "the path is not valid")
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return
        path = decoded
    raise Refused(400, "the path is not valid")


async def _read_body(request: _Request, receive: Receive) -> bytes:
    """Return the body of a request; only JSON of limited size is read."""
    length = request.header("content-length")
    if request.method != "POST":
        if (length or "0") != "0" or request.header("transfer-encoding") is not None:
            raise Refused(400, f"{request.method} has no body")
        return b""
    kind = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.header("content-encoding") is not None:
        raise Refused(415, "only JSON is read")
    if length is not None and (not length.isdecimal() or int(length) > MOST_BODY_BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _received(receive)
    except TimeoutError:
        raise Refused(408, "the body of the request did not arrive in time") from None


async def _received(receive: Receive) -> bytes:
    """Return the body of a request, up to the limit."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request has ended before its body")
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body"):
            return bytes(body)


def _too_large() -> Refused:
    return Refused(413, f"a request may have at most {MOST_BODY_BYTES} bytes")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body that was read."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers by which browsers restrict the page."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", ())}
            more = [pair for pair in _HEADER_PAIRS if pair[0] not in present]
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return guarded


async def send_json(send: Send, status: int, content: Any, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send a whole answer."""
    body = json.dumps(content).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def _secret_in(body: bytes) -> tuple[str | None, str | None]:
    """Return the code and the token in the body of a login; exactly one of them is a text."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and len(content) == 1:
        ((name, value),) = content.items()
        if name in ("code", "token") and isinstance(value, str):
            return (value, None) if name == "code" else (None, value)
    raise Refused(400, 'expected {"code": "..."} or {"token": "..."}')
