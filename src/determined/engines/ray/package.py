"""The check that Ray is installed."""

from __future__ import annotations

import importlib.util

from determined.errors import MissingExtraError


def check_package() -> None:
    """Raise MissingExtraError if Ray is not installed; it is not imported, because only the bridge may load it."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError('the engine ray needs the package ray: pip install "determined-pytorch[ray]"')
