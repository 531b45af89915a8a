"""Texts of any origin without secrets that are known: for what leaves this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote

from determined.config.masking import MASK, mask_secrets

_SHORTEST = 4  # what is shorter stands in too many other words; it is hidden only where its name tells what it is


class Redaction:
    """Hides known secrets wherever they stand, and what looks like one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {form for secret in secrets for form in _forms(secret) if len(form) >= _SHORTEST and form != MASK}
        # The longest first: one may be a part of another.
        self._known = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True)))) if known else None

    # Known ones first: of what only looks like a secret it is not known where it ends.

    def text(self, text: str) -> str:
        shown: str = mask_secrets(self._without_known(text))
        return shown

    def data(self, value: Any) -> Any:
        """The same data; names of fields are texts as well."""
        return mask_secrets(self._data_without_known(value))

    def _data_without_known(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._without_known(str(key)): self._data_without_known(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._data_without_known(inner) for inner in value]
        return self._without_known(value) if isinstance(value, str) else value

    def _without_known(self, text: str) -> str:
        return text if self._known is None else self._known.sub(MASK, text)


def _forms(secret: str) -> Iterable[str]:
    """As it is, line by line, and as it stands in a URL."""
    yield from (secret, secret.strip(), quote(secret, safe="", errors="replace"), unquote(secret))
    yield from (line.strip() for line in secret.splitlines())
