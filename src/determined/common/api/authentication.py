"""Login functions for programs that call them before using the SDK. They always succeed: there are no accounts."""

from __future__ import annotations

import logging
from typing import Any

from determined.store.process import this_user

logger = logging.getLogger("determined.common")


class Authentication:
    """A successful login; all arguments are accepted and ignored."""

    def __init__(
        self,
        master_address: str | None = None,
        requested_user: str | None = None,
        password: str | None = None,
        try_reauth: bool = False,
        cert: Any = None,
    ) -> None:
        if requested_user is not None or password is not None:
            logger.info("there are no accounts: user and password are not used")

    def get_session_user(self) -> str:
        """Return the name of the current user of this machine."""
        return this_user()

    def get_session_token(self, must: bool = True) -> str:
        """Return an empty text: there are no tokens."""
        return ""


# Programs assign an Authentication here before they call other functions.
cli_auth: Authentication | None = None


def login(
    master_address: str | None = None, username: str | None = None, password: str | None = None, cert: Any = None
) -> Authentication:
    """Return a successful login; nothing is checked."""
    return Authentication(master_address, username, password, cert=cert)


def login_with_cache(
    master_address: str | None = None,
    requested_user: str | None = None,
    password: str | None = None,
    cert: Any = None,
) -> Authentication:
    """Return a successful login; nothing is checked or cached."""
    return Authentication(master_address, requested_user, password, cert=cert)


def logout(master_address: str | None = None, requested_user: str | None = None, cert: Any = None) -> None:
    """Do nothing: there are no sessions to end."""


def logout_all(master_address: str | None = None, cert: Any = None) -> None:
    """Do nothing: there are no sessions to end."""
