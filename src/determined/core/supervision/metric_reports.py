"""The metrics that a rank reports in its current attempt: rows for the store, and what it reported for which step."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable

from determined.core.supervision.reports import Metrics
from determined.store.rows import BegunAttempt, MetricRow, Row
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer

logger = logging.getLogger("determined.core")


class MetricReports:
    """Writes the metrics of one rank, and returns metrics that this rank reported earlier for a step."""

    def __init__(
        self, rank: int, writer: Writer[WorkerStore], store: WorkerStore, *, begun: Callable[[], BegunAttempt]
    ) -> None:
        """Create the reports; `begun` returns the current attempt, and begins it if no rank has."""
        self._rank = rank
        self._writer = writer
        self._store = store
        self._begun = begun
        self.begin()

    def begin(self) -> None:
        """Start to count the reports of a new attempt."""
        self._numbers = itertools.count()
        self._latest: dict[str, tuple[int, Metrics]] = {}  # by group: the largest step and its metrics

    def write(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        """Write a report in the background, and remember it if it has a step."""
        attempt = self._begun()
        self._writer.put(
            MetricRow(
                attempt.trial_id,
                attempt.number,
                next(self._numbers),
                group,
                steps_completed,
                json.dumps(metrics),
                time.time(),
                self._rank,
            )
        )
        if steps_completed is not None:
            self._remember(group, steps_completed, metrics)

    def latest(self, group: str) -> tuple[int, Metrics] | None:
        """Return the largest step that was reported for a group, and its metrics, or None."""
        return self._latest.get(group)

    def find(self, group: str, steps_completed: int) -> Metrics:
        """Return the metrics of a step of this attempt, from memory for the newest step, else from the store."""
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            return {}
        if steps_completed == latest[0]:
            return latest[1]
        # Steps usually grow: an earlier one is looked up in the store rather than kept in memory.
        attempt = self._begun()
        found = self._store.find_metric(attempt.trial_id, group, steps_completed, self._rank)
        # The store returns the report of any attempt, and a new attempt may report other values.
        return found.metrics if found is not None and found.attempt == attempt.number else {}

    def _remember(self, group: str, steps_completed: int, metrics: Metrics) -> None:
        """Keep the newest metrics of a group in memory."""
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            # A copy, because later reports of the step are merged into it.
            self._latest[group] = (steps_completed, dict(metrics))
        elif steps_completed == latest[0]:
            latest[1].update(metrics)


def warn_of_shared_metric(store: WorkerStore, rows: list[Row]) -> None:
    """Warn once per attempt if two ranks report the same metric. Called by the writer's thread with written rows."""
    reports = [row for row in rows if isinstance(row, MetricRow)]
    found = store.claim_shared_metric(reports) if reports else None
    if found is not None:
        logger.warning(
            "rank %d reported the metric %r of group %r for step %d, and so did rank %d: the value of the lowest rank "
            "is used. Other metrics may be affected. Report on one rank, or use different names",
            found.rank,
            found.name,
            found.group,
            found.steps_completed,
            found.lower_rank,
        )
