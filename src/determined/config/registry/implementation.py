"""Imports what a line of a registry names."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(path: str) -> Any:
    """Return the object that a path such as `package.module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
