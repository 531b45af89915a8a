"""What a store may be named by, and how that name is shown without its password."""

from __future__ import annotations

import os
import re
from pathlib import Path

from determined.config.masking import MASK
from determined.errors import StoreError

_POSTGRES = ("postgresql://", "postgres://")


def resolve(place: str | os.PathLike[str]) -> str:
    """A `postgresql://` URL as it is, a file as an absolute path; anything else is refused."""
    text = os.fspath(place)
    if is_postgres(text):
        return text
    if "://" in text or "\0" in text or not text:
        raise StoreError(
            f"{shown(text)!r} cannot name a store: expected the path of a file or a URL that begins with postgresql://"
        )
    return str(Path(text).expanduser().absolute())


def is_postgres(place: str) -> bool:
    return place.startswith(_POSTGRES)


def shown(place: str) -> str:
    """The name for messages: a URL loses its password and its query, even one that cannot be parsed."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    account, at, server = rest.rpartition("@")
    # A password may hold any character, and even a URL that is wrong must not show it.
    user = re.split("[:/?]", account, maxsplit=1)[0]
    secret = "" if user == account else f":{MASK}"
    return f"{scheme}://{user}{secret}{at}{server.partition('?')[0]}"
