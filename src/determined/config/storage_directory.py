"""Reads the directory of a `checkpoint_storage` block, and replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from determined.config.registry.implementation import load
from determined.config.registry.storage_types import storage_type

# The fields that every storage type has: how many checkpoints are kept.
RETENTION = ("save_experiment_best", "save_trial_best", "save_trial_latest")


def directory_of(block: Mapping[str, Any]) -> str | None:
    """Return the directory of a storage that is a directory of this machine; None for other types."""
    found = storage_type(block.get("type"))
    directory: str | None = None if found is None else load(found.implementation).directory(block)
    return directory


def with_directory(block: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return a block for checkpoints in another directory, with the same retention settings."""
    # Kept, because the retention policy belongs to the experiment and not to the place.
    kept = {name: block[name] for name in RETENTION if name in block}
    return {"type": "directory", "container_path": directory, **kept}
