"""Read the metrics of trials, row by row or summarized."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from determined.curves import summary
from determined.curves.summary import Summary
from determined.experimental.old_names import warn_renamed
from determined.experimental.session import Session, utc_datetime

if TYPE_CHECKING:
    from determined.store.records import Metric


@dataclass(frozen=True)
class TrialMetrics:
    """The metrics that one rank of a trial reported for a group and step.

    Names that a lower rank reported as well are left out, because the lower rank's values count.
    """

    trial_id: int
    trial_run_id: int
    steps_completed: int
    end_time: datetime
    metrics: dict[str, Any]
    group: str
    batch_metrics: list[dict[str, Any]] | None = None
    rank: int = 0

    @property
    def total_batches(self) -> int:
        """Deprecated name of `steps_completed`."""
        warn_renamed("TrialMetrics.total_batches", "TrialMetrics.steps_completed")
        return self.steps_completed


def iter_metrics(session: Session, trial_ids: Iterable[int], group: str | None) -> Iterator[TrialMetrics]:
    """Yield the valid reports by trial, step and rank; of a step that was trained again, the newest report."""
    for trial_id in trial_ids:
        for row in _reports(session, trial_id, group):
            reported = utc_datetime(row.reported)
            assert reported is not None
            assert row.steps_completed is not None
            yield TrialMetrics(
                trial_id, row.attempt, row.steps_completed, reported, row.metrics, row.group, rank=row.rank
            )


def summarize(session: Session, trial_id: int) -> Summary:
    """Return statistics of each metric by group and name; see `curves/summary.py`."""
    return summary.summarize(_reports(session, trial_id, None))


def _reports(session: Session, trial_id: int, group: str | None) -> list[Metric]:
    """Return the reports of a trial by group, step and rank; raise if there is no such trial."""

    def read(store: Any) -> list[Metric]:
        # A trial without reports has no rows, so its existence is checked separately.
        store.experiments.trial(trial_id)  # raises if there is no such trial
        found: list[Metric] = store.metrics(trial_id, group)
        return found

    return sorted(session.read(read), key=lambda row: (row.group, row.steps_completed or 0, row.rank))


def plain_cell(value: Any) -> Any:
    """Return a value as it is stored in a table cell; dicts and lists become JSON."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value
