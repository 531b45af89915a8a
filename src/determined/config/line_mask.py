"""Lines and reasons without secrets: the values of secret variables and passwords in URLs are masked before storing.

Unlike what leaves this machine in a support bundle, a line keeps everything else: `key=3` may well be a result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from determined.config.masking import MASK, mask_url_passwords, secrets_in

# A shorter value stands in too many other words and numbers.
_SHORTEST = 8
# Of our own variables: long texts with copies of the configuration, and a token that opens nothing.
_OURS = "DET_"
_STORE = "DET_STORE"


class LineMask:
    """Masks known secrets and passwords in URLs; made once, then called for every line."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        forms = {form for secret in self._secrets for form in _forms(secret) if len(form) >= _SHORTEST and form != MASK}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))  # one may be a part of another
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __call__(self, text: str) -> str:
        """The text as it may be stored."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return mask_url_passwords(text) if "://" in text else text

    def with_secrets_of(self, environment: Mapping[str, str]) -> LineMask:
        """Return a mask that hides the secrets of these variables as well; trials with the same secrets share one."""
        return _made(self._secrets | set(environment_secrets(environment)))


def line_mask(environment: Mapping[str, str], *configs: Mapping[str, Any]) -> LineMask:
    """The mask for lines of processes with these variables, made by these configurations."""
    found = set(environment_secrets(environment))
    for config in configs:
        # Among hyperparameters `eos_token` and the like are no secrets, and their values are words of many lines.
        found.update(secrets_in({name: value for name, value in config.items() if name != "hyperparameters"}))
    return _made(frozenset(found))


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of secret variables, and the passwords in URLs among the others."""
    for name, value in environment.items():
        if name.startswith(_OURS) and name != _STORE:
            continue
        yield from secrets_in(value, name)
        yield value.rpartition("@")[0].partition("://")[2].partition(":")[2]  # also with odd characters in a URL


@lru_cache(maxsize=16)
def _made(secrets: frozenset[str]) -> LineMask:
    """Return the mask for these secrets: the lines of most processes have the same ones."""
    return LineMask(secrets)


def _forms(secret: str) -> Iterator[str]:
    """As it is, as Python, JSON and URLs quote it, and its lines one by one: a log has them one by one."""
    yield from (secret, secret.strip(), repr(secret)[1:-1], json.dumps(secret)[1:-1])
    yield from (quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"), unquote(secret))
    yield from (line.strip() for line in secret.splitlines())
