"""Show a checkpoint as a row of a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.cli.display.json_rows import checkpoint_plain
from determined.cli.display.table import Column, Row
from determined.cli.display.times import time_text

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.records import StoredCheckpoint

COLUMNS = [
    Column("Experiment ID"),
    Column("Trial ID"),
    Column("Steps Completed"),
    Column("Report Time"),
    Column("Checkpoint UUID", rank=0),
    Column("Validation Metrics", long=True),
    Column("Metadata", long=True),
]


def checkpoint_row(experiment: Experiment, row: StoredCheckpoint) -> Row:
    """Return the row of a checkpoint for a table with COLUMNS."""
    return [
        experiment.id,
        row.trial_id,
        row.steps_completed,
        time_text(row.reported),
        row.checkpoint_id,
        row.validation,
        row.metadata,
    ]


def described_plain(experiment: Experiment, row: StoredCheckpoint) -> dict[str, Any]:
    """Return a checkpoint as JSON data."""
    return {
        **checkpoint_plain(row, experiment.metric),
        "experiment_id": experiment.id,
        "incomplete": state_parts(row, "incomplete"),
        "pickled_state": state_parts(row, "pickled_state"),
    }


def state_parts(row: StoredCheckpoint, key: str) -> list[str]:
    """Return the parts of the state that the metadata list under `key`, such as missing or pickled ones."""
    parts = row.metadata.get(key)
    return [str(part) for part in parts] if isinstance(parts, list) else []
