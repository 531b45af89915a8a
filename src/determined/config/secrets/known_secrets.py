"""The pattern that finds known secrets in texts, in all forms in which programs print them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

from determined.config.secrets.masking import MASK


def pattern_of(secrets: Iterable[str], shortest: int) -> re.Pattern[str] | None:
    """Return a pattern that finds every form of these secrets with at least `shortest` characters; None if none has.

    One pattern for all secrets, because it is applied to megabytes of logs.
    """
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= shortest and form != MASK}
    # Longest first, because one may be contained in another; then by text, so that every process has the same pattern.
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first))) if forms else None


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may occur: as it is, quoted for Python, JSON and URLs, and line by line."""
    yield from (secret, secret.strip(), repr(secret)[1:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"), unquote(secret))
    yield from (line.strip() for line in secret.splitlines())
