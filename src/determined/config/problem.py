"""A mistake that involves several fields of a configuration."""

from __future__ import annotations

# The dotted path, what is wrong, and a hint or "".
Problem = tuple[str, str, str]
