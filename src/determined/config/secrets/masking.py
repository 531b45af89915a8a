"""Masks secrets in plain data before they are shown or stored."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

MASK = "********"

# Secret names end with one of these words. Some also match at the end of a longer word: PGPASSWORD, `identitytoken`.
# Others must be a separate word: MONKEY and COMPASS are not secrets, and PWD alone is the working directory.
SECRET_WORD = (
    r"(?:token|secret|password|passwd|passphrase|apikey|"
    r"(?<![A-Za-z0-9])(?:key|pass|credentials?|connection_string)|(?<=[_-])pwd)"
    r"[_0-9]*"  # TOKEN_2 is a token
)
_SECRET_NAME = re.compile(SECRET_WORD + "$", re.IGNORECASE)
# No pattern begins with a repetition, which would take quadratic time on a long word.
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)  # the value may contain spaces
_ASSIGNMENT = re.compile(rf"((?:{SECRET_WORD}|key|\bsig)=)[^\s&]+", re.IGNORECASE)  # AccountKey=..., as in Azure
# A password may contain an unquoted `@`; but text after a quotation mark or comma does not belong to it.
_PASSWORD_IN_URL = re.compile(r"(\w://[^/\s:@]*:)[^/\s@]+(?:@[^/\s@\"',;]+)*(@)")


def mask_secrets(value: Any, name: str = "") -> Any:
    """Return the data with secrets masked: texts under secret names, `NAME_TOKEN=...`, and passwords in URLs."""
    if isinstance(value, dict):
        if name == "secrets":
            return dict.fromkeys(value, MASK)
        return {key: mask_secrets(inner, inner_name(name, str(key))) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if name == "entrypoint" and all(isinstance(word, str) for word in value):
            return mask_arguments(list(value))
        return [mask_secrets(inner, name) for inner in value]
    # Numbers are not masked: a count under a name such as `max_token` is no secret.
    return _masked_text(value, name) if isinstance(value, str) else value


@functools.lru_cache(maxsize=1024)  # thousands of trials have the same few texts, such as names of optimizers
def _masked_text(value: str, name: str) -> str:
    if name == "secrets" or _SECRET_NAME.search(name):
        return MASK
    if (variable := _VARIABLE.fullmatch(value)) and _SECRET_NAME.search(variable.group(1)):
        return f"{variable.group(1)}={MASK}"
    return mask_url_passwords(_ASSIGNMENT.sub(rf"\1{MASK}", value))


def mask_url_passwords(text: str) -> str:
    """Return the text with the passwords in its URLs masked."""
    return _PASSWORD_IN_URL.sub(rf"\1{MASK}\2", text)


def inner_name(block: str, key: str) -> str:
    """Return the name that decides whether a field is secret.

    All below `secrets` is secret, and so is the `auth` of a registry. The `val` of `{type: const, val: ...}` belongs to
    the hyperparameter that is written that way.
    """
    if key == "val":
        return block
    return "secrets" if block == "secrets" or (block == "registry_auth" and key == "auth") else key


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield every text that `mask_secrets` would mask."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from secrets_in(inner, inner_name(name, str(key)))
    elif isinstance(value, (list, tuple)):
        for inner, shown in zip(value, mask_secrets(value, name), strict=True):
            yield from [inner] if shown == MASK and isinstance(inner, str) else secrets_in(inner, name)
    elif not isinstance(value, str) or mask_secrets(value, name) == value:
        return
    elif mask_secrets(value, name) == MASK:
        yield value
    elif (variable := _VARIABLE.fullmatch(value)) and _SECRET_NAME.search(variable.group(1)):
        yield variable.group(2)
    else:
        yield from (found.group()[len(found.group(1)) :] for found in _ASSIGNMENT.finditer(value))
        yield from (found.group()[len(found.group(1)) : -1] for found in _PASSWORD_IN_URL.finditer(value))


def mask_arguments(arguments: list[str]) -> list[str]:
    """Return a command line with secrets masked, including the value after an option such as `--token`."""
    masked = []
    secret_follows = False
    for argument in arguments:
        masked.append(MASK if secret_follows else mask_secrets(argument))
        # `--token=x` contains its value, which `mask_secrets` hides.
        secret_follows = argument.startswith("-") and bool(_SECRET_NAME.search(argument.lstrip("-")))
    return masked
