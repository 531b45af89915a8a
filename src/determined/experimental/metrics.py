"""What trials reported: row by row, and summed up."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from determined.config.measures import finite_number, number
from determined.experimental.renamed import warn_renamed
from determined.experimental.session import Session, moment

if TYPE_CHECKING:
    from determined.store.records import Metric


@dataclass(frozen=True)
class TrialMetrics:
    """What one rank of a trial reported for a group and step.

    Names that a lower rank reported as well are left out, because its values count.
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
        """Old name of `steps_completed`."""
        warn_renamed("TrialMetrics.total_batches", "TrialMetrics.steps_completed")
        return self.steps_completed


def iter_metrics(session: Session, trial_ids: Iterable[int], group: str | None) -> Iterator[TrialMetrics]:
    """Yield what counts now, by trial, step and rank: of steps that were trained again, the newest report."""
    for trial_id in trial_ids:
        for row in _reports(session, trial_id, group):
            reported = moment(row.reported)
            assert reported is not None
            assert row.steps_completed is not None
            yield TrialMetrics(
                trial_id, row.attempt, row.steps_completed, reported, row.metrics, row.group, rank=row.rank
            )


def summarize(session: Session, trial_id: int) -> dict[str, dict[str, dict[str, Any]]]:
    """By group and name: count, sum, min, max, mean and last of numbers; of anything else count and last."""
    values: dict[str, dict[str, list[Any]]] = {}
    for row in _reports(session, trial_id, None):
        for name, value in row.metrics.items():
            values.setdefault(row.group, {}).setdefault(name, []).append(value)
    return {
        group: {name: _summary(reported) for name, reported in metrics.items()} for group, metrics in values.items()
    }


def _reports(session: Session, trial_id: int, group: str | None) -> list[Metric]:
    def read(store: Any) -> list[Metric]:
        store.experiments.trial(trial_id)  # raises when there is none
        found: list[Metric] = store.metrics(trial_id, group)
        return found

    return sorted(session.ask(read), key=lambda row: (row.group, row.steps_completed or 0, row.rank))


def _summary(values: list[Any]) -> dict[str, Any]:
    kind = _kind(values)
    summary: dict[str, Any] = {"count": len(values), "last": values[-1], "type": kind}
    if kind == "number":
        # Integers beyond the range of a float count as infinities: Python neither adds them to floats nor divides them.
        values = [value if finite_number(value) is not None else number(value) for value in values]
        finite = [value for value in values if math.isfinite(value)]
        total = sum(values)
        summary |= {
            "sum": total,
            "mean": (number(total) or 0.0) / len(values),
            "min": min(finite, default=values[-1]),
            "max": max(finite, default=values[-1]),
        }
    return summary


def _kind(values: list[Any]) -> str:
    kinds = {_kind_of_one(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else "string"


def _kind_of_one(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    return "null" if value is None else "string"


def plain_cell(value: Any) -> Any:
    """What fits into a cell of a table."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value
