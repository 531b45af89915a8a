"""Reads the directory of a `checkpoint_storage` block, and replaces it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_RETENTION = ("save_experiment_best", "save_trial_best", "save_trial_latest")


def directory_of(block: Mapping[str, Any]) -> str | None:
    """Return the directory of a storage of type `directory` or `shared_fs`; None for other types."""
    container_path, host_path, below = (block.get(name) for name in ("container_path", "host_path", "storage_path"))
    if block.get("type") == "directory" and isinstance(container_path, str):
        return os.path.normpath(container_path)
    if block.get("type") == "shared_fs" and isinstance(host_path, str):
        return os.path.normpath(os.path.join(host_path, below if isinstance(below, str) else ""))
    return None


def with_directory(block: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return a block for checkpoints in another directory, with the same retention settings."""
    kept = {name: block[name] for name in _RETENTION if name in block}
    return {"type": "directory", "container_path": directory, **kept}
