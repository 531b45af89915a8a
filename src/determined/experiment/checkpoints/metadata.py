"""Change the metadata of a checkpoint, in its file and in the store."""

from __future__ import annotations

import json
from typing import Any

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage
from determined.errors import CheckpointStateException
from determined.store.records import StoredCheckpoint
from determined.store.store import Store


def rewrite_metadata(
    store: Store, row: StoredCheckpoint, storage: CheckpointStorage, metadata: dict[str, Any]
) -> StoredCheckpoint:
    """Replace the metadata of a checkpoint and return its new row.

    The file is written before the row. After an interruption the same call completes the change.
    """
    if row.state == "DELETED":
        raise CheckpointStateException(f"checkpoint {row.checkpoint_id} is DELETED: its metadata stay as they are")
    if "steps_completed" not in metadata:
        raise ValueError(f"checkpoint {row.checkpoint_id}: its metadata must have steps_completed")
    try:
        content = {METADATA_FILE: json.dumps(metadata, indent=2).encode()}
    except TypeError as error:
        raise TypeError(f"checkpoint {row.checkpoint_id}: its metadata must be JSON: {error}") from None
    with storage.open(row.checkpoint_id) as directory:
        # The manifest contains the hash of the metadata: without the change the checkpoint would count as damaged.
        if manifest.exists(directory):
            content[manifest.MANIFEST_FILE] = manifest.with_changed(directory, row.checkpoint_id, content)
    # Both files in one call, since the manifest must match the metadata.
    resources = storage.rewrite(row.checkpoint_id, content)
    store.upkeep.set_checkpoint_files(row.checkpoint_id, row.state, resources)
    store.upkeep.set_checkpoint_metadata(row.checkpoint_id, metadata)
    return store.upkeep.checkpoint(row.checkpoint_id)
