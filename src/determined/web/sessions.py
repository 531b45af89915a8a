"""The secrets of one server: its token, codes that work once, and the sessions of browsers."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

CODE_SECONDS = 60.0
_MOST_SESSIONS = 1000
_SLOW_AFTER = 5  # wrong secrets in a row; a person mistypes a few times
_LONGEST_DELAY = 2.0


@dataclass
class Sessions:
    """The token, the login codes and the sessions that the server accepts.

    A browser has two ids: one in a cookie, which scripts cannot read, and one in the page's own storage. Cookies are
    shared between all ports of a host, so another user's server there could receive the first one, but never both.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    clock: Callable[[], float] = time.monotonic
    _codes: dict[str, float] = field(default_factory=dict, repr=False)  # until when each is valid
    _sessions: OrderedDict[str, str] = field(default_factory=OrderedDict, repr=False)  # cookie -> id in the page
    _wrong: int = 0

    def new_code(self) -> str:
        """Return a code that logs in once, within a minute."""
        code = secrets.token_urlsafe(32)
        self._codes[code] = self.clock() + CODE_SECONDS
        return code

    def log_in(self, *, code: str | None = None, token: str | None = None) -> tuple[str, str] | None:
        """Return the cookie and the page's id of a new session; None if neither secret is valid."""
        if not (self._use_code(code) if code is not None else token is not None and self.is_token(token)):
            return None
        cookie, in_page = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._sessions[cookie] = in_page
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie, in_page

    def is_token(self, given: str) -> bool:
        """Return whether this is the server's token."""
        return _same(given, self.token)

    def is_session(self, cookie: str, in_page: str) -> bool:
        """Return whether both ids belong to the same session."""
        return _same(in_page, self._sessions.get(cookie, "")) and bool(in_page)

    def count(self, *, right: bool) -> float:
        """Count a right or wrong secret, and return how many seconds the answer has to wait."""
        self._wrong = 0 if right else self._wrong + 1
        # The exponent is limited: with thousands of wrong secrets the power would exceed the range of a float.
        beyond = min(self._wrong - _SLOW_AFTER, 10)
        return 0.0 if beyond <= 0 else min(_LONGEST_DELAY, 0.05 * 2**beyond)

    def _use_code(self, given: str) -> bool:
        """Return whether a code is valid, and invalidate it."""
        now = self.clock()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        found = [code for code in self._codes if _same(given, code)]
        for code in found:
            del self._codes[code]
        return bool(found)


def _same(given: str, known: str) -> bool:
    """Return whether two secrets are equal, in a time that does not depend on where they differ."""
    return secrets.compare_digest(given.encode(errors="surrogatepass"), known.encode())
