"""Imports what a line of a registry names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from determined.errors import DeterminedError


def load(path: str) -> Any:
    """Return the object that a path such as `package.module:name` names."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise DeterminedError(f"a registry in determined/config/registry names {path!r}: {error}") from error
