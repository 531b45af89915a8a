"""Writes the rows that runs report: metrics, checkpoints, log lines, statuses, metadata and ends of attempts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from determined.store.databases.base import Database
from determined.store.rows import (
    CheckpointRow,
    ComparedMetricRow,
    EndRow,
    HeartbeatRow,
    LogRow,
    MetadataRow,
    MetricRow,
    PublishingRow,
    Row,
    StatusRow,
)
from determined.store.sql.columns import optional_text, text
from determined.store.sql.reports import write_reports
from determined.store.sql.standalone_runs import set_metric

R = TypeVar("R")

_SAMPLES = "samples (trial_id, attempt, rank, sequence, metric_group, body, reported)"
_LOGS = "logs (trial_id, attempt, rank, sequence, stream, body, written, level)"
_PUBLISHING = "publishing (uuid, trial_id, attempt, storage, since)"
_CHECKPOINTS = "checkpoints (uuid, trial_id, attempt, steps_completed, metadata, resources, storage, state, reported)"


def write_rows(database: Database, rows: Sequence[Row]) -> None:
    """Write rows inside the caller's transaction; see `Store.write`."""
    insert = database.insert
    # First, because it locks the rows of trials in the order of their ids, as every transaction does.
    write_reports(database, rows)
    insert(_SAMPLES, _values(rows, MetricRow, _sample_values), "DO NOTHING")
    # DO NOTHING: a row that is written again must not make a checkpoint active that was deleted meanwhile.
    insert(_CHECKPOINTS, _values(rows, CheckpointRow, _checkpoint_values), "DO NOTHING")
    insert(_PUBLISHING, _values(rows, PublishingRow, _publishing_values), "DO NOTHING")
    insert(_LOGS, _values(rows, LogRow, _log_values), "DO NOTHING")
    for row in rows:
        if isinstance(row, StatusRow):
            _write_status(database, row)
        elif isinstance(row, MetadataRow):
            _write_metadata(database, row)
        elif isinstance(row, CheckpointRow):
            # In the same transaction as the checkpoint, which therefore is always in one of the two tables.
            database.execute("DELETE FROM publishing WHERE uuid = ?", [row.checkpoint_id])
        elif isinstance(row, EndRow):
            _write_end(database, row)
        elif isinstance(row, LogRow) and row.replaces is not None:
            database.execute(
                "DELETE FROM logs WHERE trial_id = ? AND attempt = ? AND rank = ? AND sequence = ?",
                [row.trial_id, row.attempt, row.rank, row.replaces],
            )
        elif isinstance(row, ComparedMetricRow):
            set_metric(database, row)
        elif isinstance(row, HeartbeatRow):
            database.execute(
                "UPDATE attempts SET heartbeat = ? WHERE trial_id = ? AND number = ?",
                [row.time, row.trial_id, row.attempt],
            )


def _write_status(database: Database, row: StatusRow) -> None:
    """Update the status of a trial, unless a newer attempt has begun."""
    database.execute(
        "UPDATE trials SET phase = coalesce(?, phase), progress = coalesce(?, progress), "
        # `|` on integers works in both databases, and a flag that was set stays set.
        "early_exit = coalesce(?, early_exit), stop_acknowledged = stop_acknowledged | ?, "
        "follows_operations = follows_operations | ? WHERE id = ? AND attempt = ?",
        [
            optional_text(row.phase),
            row.progress,
            row.early_exit,
            int(row.stop_acknowledged),
            int(row.follows_operations),
            row.trial_id,
            row.attempt,
        ],
    )


def _write_metadata(database: Database, row: MetadataRow) -> None:
    """Replace the metadata of one rank, unless a newer attempt has begun."""
    # Locked, because ranks write their parts of the same value.
    found = database.read_locked(
        "SELECT rank_metadata FROM trials WHERE id = ? AND attempt = ?", [row.trial_id, row.attempt]
    )
    if not found:
        return
    column, value = "metadata", json.dumps(row.metadata)
    if row.rank > 0:
        column, value = "rank_metadata", json.dumps({**json.loads(found[0][0]), str(row.rank): row.metadata})
    database.execute(f"UPDATE trials SET {column} = ? WHERE id = ?", [value, row.trial_id])


def _write_end(database: Database, row: EndRow) -> None:
    """Record the end of an attempt. Ranks other than the chief do not overwrite an end that is already recorded."""
    # The chief knows how the run as a whole ended, so it may replace the report of another rank.
    still_open = "" if row.rank == 0 else "AND ended IS NULL"
    database.execute(
        "UPDATE attempts SET state = ?, ended = ?, seconds = ?, exit_code = ?, reason = coalesce(?, reason) "
        f"WHERE trial_id = ? AND number = ? {still_open}",
        [row.state, row.ended, row.seconds, row.exit_code, optional_text(row.reason), row.trial_id, row.attempt],
    )
    if row.reason is not None:
        database.execute(
            # For a search the runner determines the reason (`state` is not NULL there).
            "UPDATE trials SET reason = ? WHERE id = ? AND attempt = ? AND state IS NULL",
            [text(row.reason), row.trial_id, row.attempt],
        )


def _values(rows: Sequence[Row], kind: type[R], values_of: Callable[[R], Sequence[Any] | None]) -> list[Sequence[Any]]:
    """Return the column values of the rows of one kind, without those for which `values_of` returns None."""
    found = (values_of(row) for row in rows if isinstance(row, kind))
    return [values for values in found if values is not None]


def _sample_values(row: MetricRow) -> Sequence[Any] | None:
    """Return the values of a report without a step, which is a sample; None for other reports."""
    if row.steps_completed is not None:
        return None
    return row.trial_id, row.attempt, row.rank, row.sequence, text(row.group), row.body, row.reported


def _publishing_values(row: PublishingRow) -> Sequence[Any]:
    """Return the values of the columns of a checkpoint that is about to become visible."""
    return row.checkpoint_id, row.trial_id, row.attempt, text(row.storage), row.since


def _checkpoint_values(row: CheckpointRow) -> Sequence[Any]:
    """Return the values of the columns of a checkpoint."""
    return (
        row.checkpoint_id,
        row.trial_id,
        row.attempt,
        row.steps_completed,
        json.dumps(row.metadata),
        json.dumps(row.resources),
        text(row.storage),
        "ACTIVE",
        row.reported,
    )


def _log_values(row: LogRow) -> Sequence[Any]:
    """Return the values of the columns of a log line."""
    # A carriage return says that the line is not finished; nothing else leaves one at the end of a stored line.
    body = text(row.text) + ("" if row.finished else "\r")
    return row.trial_id, row.attempt, row.rank, row.sequence, row.stream, body, row.written, row.level
