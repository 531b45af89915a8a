"""Compare the files of a checkpoint with the sizes and hashes that were recorded when it was saved."""

from __future__ import annotations

from determined.checkpoint_storage import retention
from determined.checkpoint_storage.base import checked_id
from determined.checkpoint_storage.manifest import MANIFEST_FILE
from determined.errors import CheckpointNotFound
from determined.experiment.checkpoints.storage_lookup import storage_of
from determined.store.experiment_records import Experiment
from determined.store.records import StoredCheckpoint


def verify_checkpoint(experiment: Experiment, checkpoint: StoredCheckpoint) -> bool:
    """Raise InvalidCheckpointException unless all files are as they were saved, CheckpointNotFound if none is here.

    Return whether they were compared by hashes. Checkpoints that a program saves with the Core API have none: only
    names and sizes are known.
    """
    checked_id(checkpoint.checkpoint_id)
    if checkpoint.state == "DELETED":
        raise CheckpointNotFound(f"checkpoint {checkpoint.checkpoint_id} was deleted")
    retention.verify(storage_of(experiment, checkpoint.storage), retention.candidate(checkpoint))
    return MANIFEST_FILE in checkpoint.resources
