"""Counts with nouns in the right number: "1 trial", "3 trials"."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with the noun, singular for one, else plural (default: the noun with an "s")."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
