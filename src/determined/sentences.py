"""The wording of messages: sentences that can follow a colon, and counts with nouns in the right number."""

from __future__ import annotations

from collections.abc import Sequence


def capitalized(text: str) -> str:
    """Return a text with a capital first letter: errors begin with a small one, so that they can follow a colon."""
    return f"{text[:1].upper()}{text[1:]}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with the noun, singular for one, else plural (default: the noun with an "s")."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_few(names: Sequence[str], most: int = 10) -> str:
    """Return the first few of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
