"""Recovery of checkpoints that were stored but not recorded because their process was killed in between.

Before a process publishes a checkpoint, it writes a row to the `publishing` table. A later process that continues the
trial or uses the same storage reads the row and either records the checkpoint or deletes the row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.store.rows import CheckpointRow

if TYPE_CHECKING:
    from determined.store.workers.worker_store import WorkerStore

logger = logging.getLogger("determined.store")


class Origin(NamedTuple):
    """The attempt that saved a checkpoint, identified across all stores that share a checkpoint storage."""

    store: str
    experiment: str
    trial: int
    attempt: int

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dict, to be stored as JSON."""
        return self._asdict()


class Unrecorded(NamedTuple):
    """A checkpoint that was about to be published by an attempt that has ended or was superseded."""

    checkpoint_id: str
    origin: Origin
    is_gone: bool  # its process has certainly ended: a checkpoint that is not in the storage now never will be


Examine = Callable[[str, dict[str, Any]], tuple[dict[str, Any], dict[str, int]] | None]
"""Takes an id and an origin; returns metadata and files of a complete checkpoint in the storage, or None."""


def recover_unrecorded(store: WorkerStore, storage: str, examine: Examine, trial_id: int | None = None) -> list[str]:
    """Record the published but unrecorded checkpoints of attempts that have ended, and return their ids.

    With `trial_id`, only checkpoints of that trial are examined, and the caller guarantees that no process of the trial
    is running.
    """
    recorded = []
    for found in store.unrecorded_checkpoints(storage, trial_id):
        complete = examine(found.checkpoint_id, found.origin.plain())
        if complete is None:
            # Otherwise its upload may still be in progress, and the row must stay for a later process to examine.
            if found.is_gone:
                store.forget_unrecorded(found.checkpoint_id)
            continue
        metadata, resources = complete
        # Writing this row deletes the one in `publishing` in the same transaction.
        row = CheckpointRow(
            found.checkpoint_id,
            found.origin.trial,
            found.origin.attempt,
            metadata["steps_completed"],
            metadata,
            resources,
            storage,
            time.time(),
        )
        store.write([row])
        logger.info(
            "recorded checkpoint %s of trial %d, whose process ended right after storing it",
            row.checkpoint_id,
            row.trial_id,
        )
        recorded.append(found.checkpoint_id)
    return recorded
