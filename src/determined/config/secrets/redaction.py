"""Removes secrets from texts that leave this machine, such as support bundles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from determined.config.secrets.known_secrets import pattern_of
from determined.config.secrets.masking import MASK, mask_secrets

_SHORTEST = 4  # shorter secrets occur by chance in other words, so they are masked only under a secret name


class Redaction:
    """Masks known secrets wherever they occur, and values that look like secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = pattern_of(secrets, _SHORTEST)

    # Known secrets are masked first, because the end of a value that only looks like a secret has to be guessed.

    def text(self, text: str) -> str:
        """Return the text with secrets masked."""
        shown: str = mask_secrets(self._without_known(text))
        return shown

    def data(self, value: Any) -> Any:
        """Return the data with secrets masked, also in the names of fields."""
        return mask_secrets(self._data_without_known(value))

    def _data_without_known(self, value: Any) -> Any:
        """Return data without the known secrets."""
        if isinstance(value, dict):
            return {self._without_known(str(key)): self._data_without_known(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._data_without_known(inner) for inner in value]
        return self._without_known(value) if isinstance(value, str) else value

    def _without_known(self, text: str) -> str:
        return text if self._known is None else self._known.sub(MASK, text)
