"""Delete old checkpoints of a running trial according to its retention policy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.checkpoint_storage.base import CheckpointStorage
from determined.config.storage_directory import RETENTION
from determined.config.stored import StoredSearcher
from determined.core.supervision.checkpoint_records import CheckpointRecords
from determined.errors import DeterminedError

if TYPE_CHECKING:
    from determined.checkpoint_storage import retention

logger = logging.getLogger("determined.core")


class Retention(NamedTuple):
    """The retention policy of a trial, and the metric by which its best checkpoints are determined."""

    policy: retention.Policy
    metric: str | None


def retention_of(block: Any, searcher: StoredSearcher) -> Retention | None:
    """Return the retention policy of a `checkpoint_storage` block, or None (keep everything) if it names no number."""
    if not isinstance(block, dict):
        return None
    numbers = {name: block[name] for name in RETENTION if block.get(name) is not None}
    if not numbers:
        return None
    from determined.checkpoint_storage import retention  # here: most standalone runs keep every checkpoint

    policy = retention.Policy(**numbers, smaller_is_better=bool(searcher.smaller_is_better))
    return Retention(policy, searcher.metric)


def clean_up(storage: CheckpointStorage, records: CheckpointRecords, keep: Retention) -> None:
    """Delete the checkpoints that this trial need not keep. A failure is logged: it costs disk space, not the run."""
    from determined.checkpoint_storage import retention

    try:
        in_use = records.in_use()
        known = [
            retention.candidate(checkpoint, keep.metric, in_use=checkpoint.checkpoint_id in in_use)
            for checkpoint in records.active()
        ]
        # The store decides in one transaction: a checkpoint may have been registered just now.
        claim = records.mark_unused_deleted
        # In the order in which they were stored: after a rollback the last one is not that with the most steps.
        for checkpoint_id in retention.clean_up(storage, reversed(known), keep.policy, claim=claim).removed:
            records.set_deleted(checkpoint_id)
    except (OSError, DeterminedError) as error:
        logger.warning("old checkpoints were not removed: %s", error)
