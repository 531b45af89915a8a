"""Import an optional package, or raise an error that names the extra to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from determined.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import and return `module`; if it is not installed, raise MissingExtraError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # `error.name` may be a parent package, as `mlflow` for `mlflow.entities`.
        if error.name is None or not module.startswith(error.name):
            raise  # the package is installed, but one of its own dependencies is missing
        raise MissingExtraError(
            f'{purpose} needs the package {module}: pip install "determined-pytorch[{extra}]"'
        ) from error
