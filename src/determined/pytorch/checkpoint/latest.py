"""Resolve `latest_checkpoint="latest"`: find the newest undamaged checkpoint of this program's last run."""

from __future__ import annotations

import logging
from typing import Any

from determined import core
from determined.core.ranks.agreement import in_step
from determined.errors import CheckpointNotFound, InvalidCheckpointException

logger = logging.getLogger("determined.pytorch")

LATEST = "latest"


def resolved(core_context: core.Context, name: Any) -> Any:
    """Return `name`; for "latest", the id of that checkpoint, or None if none was saved yet. All ranks must call it."""
    if name != LATEST:
        return name
    distributed = core_context.distributed

    def choose() -> str | None:
        # Only the chief reads the store and the files: ranks that chose on their own could start from different ones.
        return _newest_good(core_context) if distributed.rank == 0 else None

    return in_step(distributed.allgather, distributed.rank, choose, doing="looking for the latest checkpoint")[0]


def _newest_good(core_context: core.Context) -> str | None:
    """Return the newest checkpoint of the last run that passes verification; raise if none of them does."""
    candidates = core_context.checkpoint.of_the_last_run()
    if not candidates:
        logger.info("latest_checkpoint='latest': this program has saved none yet, training starts at its beginning")
        return None
    for checkpoint_id in candidates:
        try:
            core_context.checkpoint.verify(checkpoint_id)
        # A damaged or deleted checkpoint must not end a run that can continue from an older one.
        except (InvalidCheckpointException, CheckpointNotFound) as error:
            logger.warning("latest_checkpoint='latest': skipped a checkpoint: %s", error)
        else:
            logger.info("latest_checkpoint='latest' is %s", checkpoint_id)
            return checkpoint_id
    # Not a fresh start: it would silently throw away the training that the user asked to continue.
    raise InvalidCheckpointException(
        f"no checkpoint of this program's last run is good, the newest is {candidates[0]}; "
        "pass latest_checkpoint=None to start at the beginning"
    )
