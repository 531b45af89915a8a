"""Import an optional package, or say which extra brings it."""

from __future__ import annotations

import importlib
from types import ModuleType

from determined.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`; when it is not installed, say what needs it and how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the package is there, and something of its own is missing
        raise MissingExtraError(
            f'{purpose} needs the package {module}: pip install "determined-pytorch[{extra}]"'
        ) from error
