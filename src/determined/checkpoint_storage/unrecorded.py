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
    storage: CheckpointStorage, uuid: str, origin: Mapping[str, Any]
) -> tuple[dict[str, Any], Resources] | None:
    """Return metadata and files of an unrecorded checkpoint if it is complete, or None.

    A damaged one is deleted if its own manifest says that it comes from `origin`. The storage may be shared with other
    stores, so any other checkpoint is left alone.
    """
    try:
        with storage.open(uuid) as path:
            try:
                return _verified(path, uuid), storage.resources(uuid)
            except InvalidCheckpointException as error:
                is_ours = _origin(path, uuid) == origin
                damage = str(error)
    except CheckpointNotFound:
        return None
    except InvalidCheckpointException as error:
        is_ours, damage = False, str(error)
    if is_ours:
        logger.warning("%s; it was never recorded, and is removed", damage)
        storage.delete(uuid)
    else:
        logger.warning("%s; it was never recorded, and does not say whose it is: it stays in %s", damage, storage.name)
    return None


def _verified(path: Path, uuid: str) -> dict[str, Any]:
    """Return the metadata after comparing every file with the manifest, if there is one."""
    if manifest.exists(path):
        manifest.verify(path, uuid)
    try:
        content = (path / METADATA_FILE).read_bytes()
    except OSError as error:
        raise InvalidCheckpointException(f"checkpoint {uuid}: {METADATA_FILE} cannot be read: {error}") from error
    metadata = parse_metadata(uuid, content)
    if type(metadata.get("steps_completed")) is not int:
        raise InvalidCheckpointException(f"checkpoint {uuid}: {METADATA_FILE} does not say steps_completed")
    return metadata


def _origin(path: Path, uuid: str) -> Any:
    try:
        return manifest.origin(path, uuid)
    except InvalidCheckpointException:
        return None
