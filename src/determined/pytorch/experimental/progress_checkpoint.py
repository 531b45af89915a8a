"""Save and restore the progress of batch inference as a small checkpoint."""

from __future__ import annotations

import json
import logging
from typing import Any

from determined import core
from determined.checkpoint_storage.outputs import is_output_id
from determined.errors import InvalidCheckpointException
from determined.pytorch.experimental.batches import Batches, Progress
from determined.store.output_records import PROGRESS_METADATA

logger = logging.getLogger("determined.pytorch")

_FILE = "batch_process.json"


def save_progress(core_context: core.Context, progress: Progress, ranks: int) -> None:
    """Store progress as a checkpoint; the chief calls it after the results of all ranks are stored."""
    content = {"batches_per_rank": progress.batches, "records": progress.records, "ranks": ranks}
    metadata = {"steps_completed": progress.batches, PROGRESS_METADATA: content}
    with core_context.checkpoint.store_path(metadata, with_manifest=True) as (directory, _):
        (directory / _FILE).write_text(json.dumps(content))


def restore_progress(core_context: core.Context, checkpoint: str | None, batches: Batches) -> Progress:
    """Return the progress stored in a checkpoint, or zero progress without one. All ranks must call it."""
    if checkpoint is None:
        return Progress()
    # The id of an output looks like that of a checkpoint, and users see both in lists.
    if is_output_id(checkpoint):
        raise InvalidCheckpointException(
            f"{checkpoint} is the output of a trial, not a checkpoint: progress is in the checkpoints that "
            "`det experiment list-checkpoints` shows with the type progress"
        )
    with core_context.checkpoint.restore_path(checkpoint) as directory:
        try:
            content = json.loads((directory / _FILE).read_text())
            progress = _checked(content, batches)
        except FileNotFoundError as error:
            raise InvalidCheckpointException(
                f"checkpoint {checkpoint} holds no progress of a batch process: it has no {_FILE}"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidCheckpointException(
                f"checkpoint {checkpoint} holds no progress of a batch process: {_FILE} cannot be read: {error!r}"
            ) from error
    logger.info("continuing after %d batches of each rank, %d records", progress.batches, progress.records)
    return progress


def _checked(content: dict[str, Any], batches: Batches) -> Progress:
    """Return the progress in the file of a checkpoint; raise if a value is missing or invalid."""
    count, ranks = _number(content["batches_per_rank"]), _number(content["ranks"])
    if "records" in content:
        return Progress(count, _number(content["records"]))
    # An earlier version stored only the number of batches of each rank.
    return Progress(count, batches.records_after(0, count, ranks))


def _number(value: Any) -> int:
    """Return the value if it is an integer from 0 on, else raise ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a whole number from 0 on, got {value!r}")
    return value
