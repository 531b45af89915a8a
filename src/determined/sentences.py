"""The wording of messages: sentences that can follow a colon, and counts with nouns in the right number."""

from __future__ import annotations


def capitalized(text: str) -> str:
    """Return a text with a capital first letter: errors begin with a small one, so that they can follow a colon."""
    return f"{text[:1].upper()}{text[1:]}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with the noun, singular for one, else plural (default: the noun with an "s")."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
