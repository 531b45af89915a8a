"""Parse the parts of a request that the guard checks, and refuse ambiguous requests.

A request is ambiguous if two programs could read its host, path or headers differently.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import unquote_to_bytes

from determined.web.asgi import Receive, Scope

MOST_BODY_BYTES = 4 * 2**20  # notes of a million characters fit
MOST_LOGIN_BYTES = 4096  # a login needs no credentials: every user of the machine can send one
_BODY_SECONDS = 30.0
# A host name or an address, and maybe a port. Other programs may take anything else, such as `name@`, for the host.
_HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^\s\[\]:/?#@\\]*)(?::\d*)?")


class Refused(Exception):
    """A request that is not answered, with the status and the reason that the client gets."""

    def __init__(self, status: int, reason: str, hint: str | None = None, allow: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint
        self.headers = [] if allow is None else [(b"allow", allow.encode())]


class CheckedRequest:
    """A request with an allowed method and an unambiguous path and host. Raises `Refused` for any other."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        if self.method not in ("GET", "HEAD", "POST"):
            raise Refused(405, f"{self.method} is not answered", allow="GET, HEAD, POST")
        check_path(scope.get("raw_path") or scope["path"].encode())
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
        """Return the value of a header, or None. A repeated one is refused: programs differ in which they use."""
        found = [value for key, value in self._headers if key == name.encode()]
        if len(found) > 1:
            raise Refused(400, f"the header {name} is repeated")
        return found[0].decode("latin-1") if found else None

    def cookies(self, name: str) -> list[str]:
        """Return all values of a cookie: another server on the same host may have set a second one of this name."""
        text = ";".join(value.decode("latin-1") for key, value in self._headers if key == b"cookie")
        pairs = (part.strip().partition("=") for part in text.split(";"))
        return [value for key, _, value in pairs if key == name]

    @property
    def is_login(self) -> bool:
        """Whether the request is a login."""
        return self.path == "/login"

    @property
    def is_public(self) -> bool:
        """Whether the request is for the page without data, or a file of it."""
        return self.method in ("GET", "HEAD") and self.path != "/api" and not self.path.startswith("/api/")

    @property
    def is_navigation(self) -> bool:
        """Whether a browser opens the page as a document, for example by a link, which may be on another site."""
        return (
            self.is_public
            and not self.path.startswith("/static/")
            and self.header("sec-fetch-mode") == "navigate"
            and self.header("sec-fetch-dest") == "document"
        )

    @property
    def has_foreign_origin(self) -> bool:
        """Whether the Origin header names another origin than the host and port that the request was sent to."""
        origin = self.header("origin")
        return origin is not None and not self._is_own(origin)

    @property
    def is_of_the_page(self) -> bool:
        """Whether the browser says that a script of this server's page has made the request."""
        origin = self.header("origin")
        return self.header("sec-fetch-site") == "same-origin" or (origin is not None and self._is_own(origin))

    def _is_own(self, origin: str) -> bool:
        """Return whether an origin is the host and port of this request, by http or https."""
        return origin.lower() in (f"http://{self.host}", f"https://{self.host}")

    async def body(self, receive: Receive) -> bytes:
        """Return the body of the request; only JSON of limited size is read."""
        most = MOST_LOGIN_BYTES if self.is_login else MOST_BODY_BYTES
        length = self.header("content-length")
        if self.method != "POST":
            if (length or "0") != "0" or self.header("transfer-encoding") is not None:
                raise Refused(400, f"{self.method} has no body")
            return b""
        kind = (self.header("content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json" or self.header("content-encoding") is not None:
            raise Refused(415, "only JSON is read")
        # The number of digits is limited first: int() refuses thousands of them.
        if length is not None and (len(length) > 18 or not length.isdecimal() or int(length) > most):
            raise _too_large(most)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                return await _received(receive, most)
        except TimeoutError:
            raise Refused(408, "the body of the request did not arrive in time") from None


def check_path(raw: bytes) -> None:
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


async def _received(receive: Receive, most: int) -> bytes:
    """Return the body of a request.

    Raise `Refused` if it is longer than `most` bytes or the client leaves before its end.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request has ended before its body")
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return bytes(body)


def _too_large(most: int) -> Refused:
    """Return the refusal of a body that is too long."""
    return Refused(413, f"this request may have at most {most} bytes")
