"""Examine a checkpoint that is in its storage but not recorded in the store."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage, Resources, parse_metadata
from determined.errors import CheckpointNotFound, InvalidCheckpointException

logger = logging.getLogger("determined.checkpoint_storage")


def examine(
    storage: CheckpointStorage, checkpoint_id: str, origin: Mapping[str, Any]
) -> tuple[dict[str, Any], Resources] | None:
    """Return metadata and files of an unrecorded checkpoint if it is complete, or None.

    A damaged one is deleted if its own manifest says that it comes from `origin`. The storage may be shared with other
    stores, so any other checkpoint is left alone.
    """
    try:
        with storage.open(checkpoint_id) as path:
            try:
                return _verified(path, checkpoint_id), storage.resources(checkpoint_id)
            except InvalidCheckpointException as error:
                # Only the exact origin, because a store that shares the storage may be about to record the checkpoint
                # itself.
                is_ours = _origin(path, checkpoint_id) == origin
                damage = str(error)
    except CheckpointNotFound:
        return None
    except InvalidCheckpointException as error:
        is_ours, damage = False, str(error)
    if is_ours:
        logger.warning("%s; it was never recorded, and is removed", damage)
        storage.delete(checkpoint_id)
    else:
        logger.warning("%s; it was never recorded and its origin is unknown, so it is left in %s", damage, storage.name)
    return None


def _verified(path: Path, checkpoint_id: str) -> dict[str, Any]:
    """Return the metadata after comparing every file with the manifest, if there is one."""
    if manifest.exists(path):
        manifest.verify(path, checkpoint_id)
    try:
        content = (path / METADATA_FILE).read_bytes()
    except OSError as error:
        raise InvalidCheckpointException(
            f"checkpoint {checkpoint_id}: {METADATA_FILE} cannot be read: {error}"
        ) from error
    metadata = parse_metadata(checkpoint_id, content)
    # The exact type, because True is an integer in Python.
    if type(metadata.get("steps_completed")) is not int:
        raise InvalidCheckpointException(f"checkpoint {checkpoint_id}: {METADATA_FILE} does not say steps_completed")
    return metadata


def _origin(path: Path, checkpoint_id: str) -> Any:
    """Return which run saved a checkpoint, according to its manifest; None if that is damaged or does not say."""
    try:
        # A manifest that is damaged itself says nothing reliable about its origin.
        return manifest.origin(path, checkpoint_id)
    except InvalidCheckpointException:
        return None
