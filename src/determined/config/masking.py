"""Plain data with its secrets replaced, for everything that is shown or kept."""

from __future__ import annotations

import re
from typing import Any

MASK = "********"

_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:key|token|secret|password|passwd|credentials?|connection_string)$", re.IGNORECASE
)
# No pattern begins with a repetition: on a long word that would take the square of its length.
_ASSIGNMENT = re.compile(r"((?:key|token|secret|password|passwd)=)[^\s&]+", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"(\w://[^/\s:@]*:)[^/\s@]+(@)")


def mask_secrets(value: Any, name: str = "") -> Any:
    """The same data with strings under telling names, `NAME_TOKEN=...` and passwords in URLs hidden."""
    if isinstance(value, dict):
        if name == "secrets":
            return dict.fromkeys(value, MASK)
        return {key: mask_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_secrets(inner, name) for inner in value]
    if not isinstance(value, str):
        return value
    if name == "secrets" or _SECRET_NAME.search(name):
        return MASK
    return _PASSWORD_IN_URL.sub(rf"\1{MASK}\2", _ASSIGNMENT.sub(rf"\1{MASK}", value))


def mask_arguments(arguments: list[str]) -> list[str]:
    """A command line with the value after `--token` and the like hidden as well."""
    masked = []
    secret_follows = False
    for argument in arguments:
        masked.append(MASK if secret_follows else mask_secrets(argument))
        secret_follows = argument.startswith("-") and bool(_SECRET_NAME.search(argument.lstrip("-")))
    return masked
