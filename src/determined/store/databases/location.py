"""Validation of store locations (files, PostgreSQL URLs, relays), and their display without a password."""

from __future__ import annotations

import os
import re
from pathlib import Path

from determined import paths
from determined.config.secrets.masking import MASK
from determined.errors import StoreError

_POSTGRES = ("postgresql://", "postgres://")


def resolve(place: str | os.PathLike[str]) -> str:
    """Return a `postgresql://` URL or the relay of a worker unchanged, or a file path as an absolute path.

    Raise `StoreError` for anything else.
    """
    text = os.fspath(place)
    if is_postgres(text) or is_relay(text):
        return text
    # A URL of another database must not become the name of a file, and no path can contain NUL.
    if "://" in text or "\0" in text or not text:
        raise StoreError(
            f"{shown(text)!r} cannot name a store: expected the path of a file or a URL that begins with postgresql://"
        )
    # Absolute, so that a process that changes its directory, and the processes it starts, use the same file.
    return str(Path(text).expanduser().absolute())


def is_postgres(place: str) -> bool:
    """Return whether a store is a PostgreSQL database."""
    return place.startswith(_POSTGRES)


def is_relay(place: str) -> bool:
    """Return whether a store is on another machine, and a worker reaches it through the socket of a relay."""
    return place.startswith(paths.RELAY)


def relay_socket(place: str) -> str:
    """Return the path of the socket that a relay listens on."""
    return place.removeprefix(paths.RELAY)


def shown(place: str) -> str:
    """Return a store location for messages: a URL without its password and query, even if it cannot be parsed."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    account, at, server = rest.rpartition("@")
    # Not parsed with urllib: a password may contain any character, and must be hidden in malformed URLs as well.
    user = re.split("[:/?]", account, maxsplit=1)[0]
    secret = "" if user == account else f":{MASK}"
    return f"{scheme}://{user}{secret}{at}{server.partition('?')[0]}"
