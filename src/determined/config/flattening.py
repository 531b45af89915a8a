"""Flattens nested maps, such as hyperparameters: `{"optimizer": {"lr": 0.1}}` becomes `{"optimizer.lr": 0.1}`."""

from __future__ import annotations

from typing import Any


def flat(nested: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return a nested dict as a flat one, with names joined by dots. An empty map is a value."""
    found: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
