"""The versions that must be equal on all nodes of a cluster."""

from __future__ import annotations

import importlib.metadata
import platform


def versions() -> dict[str, str]:
    """Return the versions of Python, torch and this library on this machine; a trial may resume on any node."""
    # The minor version of Python: bytecode and the states of user programs depend on it, but not on the patch.
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "torch": _version("torch"), "determined-pytorch": _version("determined-pytorch")}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
