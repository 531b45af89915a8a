"""Merges reports of several ranks of a trial about the same metric or key: the lowest rank's value is used.

The result does not depend on the order in which the reports arrived.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from determined.store.databases.base import Database
from determined.store.records import Metric, SharedMetric
from determined.store.rows import MetricRow
from determined.store.sql.columns import text


def counting(reports: list[Metric]) -> list[Metric]:
    """Remove from each report the metrics that a lower rank also reported for the same group and step.

    Reports that become empty are removed, so that a program whose ranks all report the same metrics has one report per
    step.
    """
    # The usual case of one rank needs no merging.
    if not any(report.rank for report in reports):
        return reports
    known: dict[tuple[str, int | None], set[str]] = {}
    kept: dict[int, Metric] = {}
    for place, report in sorted(enumerate(reports), key=lambda item: item[1].rank):
        names = known.setdefault((report.group, report.steps_completed), set())
        own = {name: value for name, value in report.metrics.items() if name not in names}
        names.update(own)
        # An empty report is kept: the rank reported no metrics for this step, and it still counts as a report.
        if own or not report.metrics:
            kept[place] = report if len(own) == len(report.metrics) else report._replace(metrics=own)
    return [kept[place] for place in sorted(kept)]


def merged_metadata(chief: str, others: str) -> dict[str, Any]:
    """Merge the metadata of the chief and of the other ranks, both given as JSON; lower ranks take precedence."""
    merged: dict[str, Any] = json.loads(chief)
    # Numerically: JSON keys are text, and "10" would come before "2".
    for _, metadata in sorted(json.loads(others).items(), key=lambda item: int(item[0])):
        for name, value in metadata.items():
            merged.setdefault(name, value)
    return merged


def claim_shared_metric(database: Database, rows: Sequence[MetricRow]) -> SharedMetric | None:
    """Return a metric in newly written rows that another rank reported too; None after the first one of an attempt."""
    with_steps = [row for row in rows if row.steps_completed is not None]
    if not with_steps:
        return None
    question = "SELECT warned_of_shared_metric FROM attempts WHERE trial_id = ? AND number = ?"
    values = [with_steps[0].trial_id, with_steps[0].attempt]
    if database.execute(question, values) == [(1,)]:
        return None  # checked without a lock first: later reports need neither the search nor a transaction
    found = _shared_metric(database, with_steps)
    if found is None:
        return None
    # Two ranks may find the metric at the same time; under the lock only one of them finds it not claimed.
    with database.transaction():
        ((warned,),) = database.read_locked(question, values)
        database.execute("UPDATE attempts SET warned_of_shared_metric = 1 WHERE trial_id = ? AND number = ?", values)
    return None if warned else found


def _shared_metric(database: Database, rows: Sequence[MetricRow]) -> SharedMetric | None:
    """Return the first metric in these rows that another rank of the attempt reported for the same group and step."""
    for group in dict.fromkeys(row.group for row in rows):
        of_group = [row for row in rows if row.group == group]
        steps = [row.steps_completed or 0 for row in of_group]
        first = of_group[0]
        found = database.execute(
            "SELECT step, rank, body FROM metrics WHERE trial_id = ? AND metric_group = ? AND step BETWEEN ? AND ? "
            "AND rank <> ? AND attempt = ? ORDER BY step, rank",
            [first.trial_id, text(group), min(steps), max(steps), first.rank, first.attempt],
        )
        for step, rank, body in found:
            own = {name for row in of_group if row.steps_completed == step for name in json.loads(row.body)}
            names = own & json.loads(body).keys()
            if names:
                lower, higher = sorted((rank, first.rank))
                return SharedMetric(min(names), group, step, rank=higher, lower_rank=lower)
    return None
