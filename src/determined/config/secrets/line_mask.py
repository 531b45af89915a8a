"""Masks secrets in log lines and error messages before they are stored.

The values of secret environment variables and passwords in URLs are masked. Unlike the redaction of support bundles, it
leaves everything else unchanged: `key=3` may be a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from determined.config.secrets.known_secrets import pattern_of
from determined.config.secrets.masking import MASK, mask_url_passwords, secrets_in

# Shorter values are not masked, because they occur by chance in other words and numbers.
_SHORTEST = 8
# Our own variables are skipped, except the store's URL: they contain copies of the configuration and a token that gives
# no access.
_OURS = "DET_"
_STORE = "DET_STORE"


class LineMask:
    """Masks known secrets and passwords in URLs. Created once and then called for every line."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        self._known = pattern_of(self._secrets, _SHORTEST)

    def __call__(self, text: str) -> str:
        """Return the text with secrets masked."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        # The search for URLs is slow, and most lines have none.
        return mask_url_passwords(text) if "://" in text else text

    def with_secrets_of(self, environment: Mapping[str, str]) -> LineMask:
        """Return a mask that also hides the secrets of these environment variables; masks are cached."""
        return _made(self._secrets | set(environment_secrets(environment)))


def line_mask(environment: Mapping[str, str], *configs: Mapping[str, Any]) -> LineMask:
    """Return the mask for lines of processes with this environment, started from these configurations."""
    found = set(environment_secrets(environment))
    for config in configs:
        # Hyperparameters are skipped: `eos_token` and the like are not secrets, and their values occur in many lines.
        found.update(secrets_in({name: value for name, value in config.items() if name != "hyperparameters"}))
    return _made(frozenset(found))


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of secret environment variables, and the passwords in URLs among the others."""
    for name, value in environment.items():
        if name.startswith(_OURS) and name != _STORE:
            continue
        yield from _secrets_of_variable(name, value)


# A run masks each of its status texts, by what the environment is at that moment; few variables change meanwhile.
@lru_cache(maxsize=512)
def _secrets_of_variable(name: str, value: str) -> tuple[str, ...]:
    """Return the secrets in one environment variable, cached."""
    unquoted = value.rpartition("@")[0].partition("://")[2].partition(":")[2]  # of a URL whose password is not quoted
    return (*secrets_in(value, name), unquoted)


# Few sets of secrets occur in a process; the limit protects a long-running daemon.
@lru_cache(maxsize=16)
def _made(secrets: frozenset[str]) -> LineMask:
    """Return the mask for these secrets, cached because most processes have the same ones."""
    return LineMask(secrets)
