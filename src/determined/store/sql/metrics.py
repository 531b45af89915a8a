"""Reads the metrics and samples of trials."""

from __future__ import annotations

from operator import itemgetter

from determined.store.databases.base import Database
from determined.store.records import Metric
from determined.store.sql import columns
from determined.store.sql.columns import text
from determined.store.sql.ranks import counting


def read_metrics(database: Database, trial_id: int, group: str | None, *, archived: bool) -> list[Metric]:
    """Return the reports of a trial that have a step, in the order they were made; see `Store.metrics`."""
    if archived:
        return _read(database, "metrics", "step, archived", trial_id, group, "")
    return counting(_read(database, "metrics", "step, archived", trial_id, group, "AND archived = 0"))


def read_samples(database: Database, trial_id: int, group: str | None) -> list[Metric]:
    """Return the metrics that a trial reported without a step, in the order they were made."""
    return _read(database, "samples", "NULL, 0", trial_id, group, "")


def find_metric(database: Database, trial_id: int, group: str, steps_completed: int, rank: int) -> Metric | None:
    """Return the report of one rank for a group and step, archived or not, or None."""
    found = database.execute(
        f"SELECT {columns.METRIC} FROM metrics WHERE trial_id = ? AND metric_group = ? AND step = ? AND rank = ?",
        [trial_id, text(group), steps_completed, rank],
    )
    return columns.metric(found[0]) if found else None


_ATTEMPT_SEQUENCE_RANK = itemgetter(4, 5, 7)  # positions of these columns in `_read`


def _read(
    database: Database, table: str, step_and_archived: str, trial_id: int, group: str | None, condition: str
) -> list[Metric]:
    """Return rows of the metrics or samples of a trial in the order they were reported."""
    found = database.execute(
        f"SELECT metric_group, {step_and_archived}, body, attempt, sequence, reported, rank FROM {table} "
        f"WHERE trial_id = ? {'AND metric_group = ?' if group is not None else ''} {condition}",
        [trial_id] if group is None else [trial_id, text(group)],
    )
    # Sorted here and not by the database: rows come ordered by step, which is nearly the order of the reports, and
    # Python's sort is fast on nearly sorted data, whereas the database would copy and sort every row.
    found.sort(key=_ATTEMPT_SEQUENCE_RANK)
    return columns.metrics(found)
