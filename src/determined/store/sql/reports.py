"""Writes metrics that have a step, decides which are archived, and updates their trials' steps and best validation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from determined.store.databases.base import Database
from determined.store.rows import MetricRow, Row
from determined.store.sql.best import keep_best
from determined.store.sql.columns import text
from determined.store.sql.stamps import new_stamp

_OVERWRITTEN = "overwritten_metrics (trial_id, attempt, metric_group, step, rank, body, reported)"
_METRICS = "metrics (trial_id, metric_group, step, rank, attempt, sequence, archived, body, reported)"

# Merges two JSON objects as text, with functions that both databases have. A name may then occur twice; Python's JSON
# decoder takes the later value.
# A repeated row is not appended again if nothing was merged since; otherwise its names occur twice, with equal values.
_UNITED = """CASE
    WHEN metrics.attempt < excluded.attempt OR metrics.body = '{}' OR metrics.body = excluded.body THEN excluded.body
    WHEN excluded.body = '{}' THEN metrics.body
    ELSE substr(metrics.body, 1, length(metrics.body) - 1) || ', ' || substr(excluded.body, 2)
END"""
# The condition keeps a late row of a replaced attempt from overwriting that of the newer attempt.
_METRICS_CONFLICT = f"""(trial_id, metric_group, step, rank) DO UPDATE SET
    body = {_UNITED},
    attempt = excluded.attempt, sequence = excluded.sequence, archived = excluded.archived,
    reported = excluded.reported
WHERE metrics.attempt <= excluded.attempt"""


def write_reports(database: Database, rows: Sequence[Row]) -> None:
    """Write the metrics with a step, and update the completed steps and the best validation of their trials."""
    reports = [row for row in rows if isinstance(row, MetricRow) and row.steps_completed is not None]
    # Every transaction locks trial rows in the order of their ids, otherwise two transactions could deadlock.
    trials = {trial_id: _Trial(database, trial_id) for trial_id in sorted({row.trial_id for row in reports})}
    groups = {group: text(group) for group in {row.group for row in reports}}
    values = [
        (
            row.trial_id,
            groups[row.group],
            row.steps_completed,
            row.rank,
            row.attempt,
            row.sequence,
            trials[row.trial_id].take(row),
            row.body,
            row.reported,
        )
        for row in reports
    ]
    database.insert(_METRICS, values, _METRICS_CONFLICT)
    late = [
        (trial_id, attempt, group, step, rank, body, reported)
        for trial_id, group, step, rank, attempt, _, archived, body, reported in values
        if archived
    ]
    if late:
        database.insert(_OVERWRITTEN, late, "DO NOTHING")
    for trial in trials.values():
        trial.bring_up_to_date()


def archive_after(database: Database, trial_id: int, step: int) -> None:
    """Archive the metrics of a trial after a step, where a new attempt resumes and will report them again."""
    # Archived and not deleted: what an abandoned attempt reported counts until it is reported again, and is shown
    # on request also after that.
    database.execute(
        f"INSERT INTO {_OVERWRITTEN} SELECT trial_id, attempt, metric_group, step, rank, body, reported FROM metrics "
        "WHERE trial_id = ? AND step > ? ON CONFLICT DO NOTHING",
        [trial_id, step],
    )
    database.execute("UPDATE metrics SET archived = 1 WHERE trial_id = ? AND step > ?", [trial_id, step])
    stamp = new_stamp()
    database.execute(
        "UPDATE trials SET changes = ?, rewrites = ?, steps_completed = "
        "coalesce((SELECT max(step) FROM metrics WHERE trial_id = ? AND archived = 0), 0) WHERE id = ?",
        [stamp, stamp, trial_id, trial_id],
    )
    keep_best(database, trial_id)


class _Trial:
    """A trial whose reports are being written. Its row is locked, so no new attempt can begin before the commit."""

    def __init__(self, database: Database, trial_id: int) -> None:
        self._database = database
        self._trial_id = trial_id
        found = database.read_locked("SELECT attempt, steps_completed FROM trials WHERE id = ?", [trial_id])
        # If the trial does not exist, the foreign key rejects its rows.
        self._newest_attempt, self._steps_completed = found[0] if found else (0, 0)
        self._reached = 0
        self._rewrites = False  # whether a report before the last step is written or archived
        self._validated: set[int] = set()
        self._behind: dict[int, float] = {}

    def take(self, row: MetricRow) -> int:
        """Return 1 if a report must be archived because a newer attempt started at an earlier step, else 0.

        Also remembers the step for `bring_up_to_date`.
        """
        attempt, step = row.attempt, row.steps_completed or 0
        self._rewrites |= step < self._steps_completed
        # The common case, reports of the newest attempt, needs no query.
        if attempt != self._newest_attempt and step > self._start_of_newer_attempts(attempt):
            return 1
        if step > self._reached:
            self._reached = step
        if row.group == "validation" and row.rank == 0:
            self._validated.add(step)
        return 0

    def bring_up_to_date(self) -> None:
        """Update the completed steps, the stamps and the best validation in the trial's row."""
        stamps = {"changes": new_stamp()}
        if self._rewrites:
            stamps["rewrites"] = stamps["changes"]
        columns = ", ".join(f"{name} = ?" for name in (*stamps, "steps_completed"))
        self._database.execute(
            f"UPDATE trials SET {columns} WHERE id = ?",
            [*stamps.values(), max(self._reached, self._steps_completed), self._trial_id],
        )
        if self._validated:
            keep_best(self._database, self._trial_id, self._validated)

    def _start_of_newer_attempts(self, attempt: int) -> float:
        """Return the smallest start step of the attempts after this one; infinity if there are none."""
        if attempt not in self._behind:
            ((step,),) = self._database.execute(
                "SELECT min(start_step) FROM attempts WHERE trial_id = ? AND number > ?", [self._trial_id, attempt]
            )
            self._behind[attempt] = math.inf if step is None else step
        return self._behind[attempt]
