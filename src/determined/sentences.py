"""Messages as sentences: errors begin with a small letter, so that they can follow a colon."""

from __future__ import annotations


def capitalized(text: str) -> str:
    """Return a text with a capital first letter; the rest stays as it is."""
    return f"{text[:1].upper()}{text[1:]}"
