"""Read and sort the trials of an experiment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from determined.config.metric_values import number
from determined.experimental.enums import OrderBy, TrialSortBy
from determined.experimental.sorting import in_order

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial
    from determined.store.store import Store

Found = list[tuple["Trial", "float | None"]]  # with the newest validation if the list is sorted by it


def read(store: Store, experiment_id: int, sort_by: TrialSortBy) -> Found:
    """Return the trials of an experiment, with the newest validation if they are sorted by it."""
    rows = store.experiments.trials(experiment_id)
    if sort_by is not TrialSortBy.LATEST_VALIDATION_METRIC:
        return [(row, None) for row in rows]
    metric = store.experiments.get(experiment_id).metric or ""
    newest = store.experiments.latest_validations(experiment_id)
    return [(row, number(newest.get(row.id, {}).get(metric))) for row in rows]


def ordered(found: Found, sort_by: TrialSortBy, order_by: OrderBy) -> list[Trial]:
    """Return the trials in the given order."""
    now = time.time()
    values: dict[TrialSortBy, Callable[[Trial], Any]] = {
        TrialSortBy.ID: lambda row: row.id,
        TrialSortBy.STATE: lambda row: row.state,
        TrialSortBy.START_TIME: lambda row: row.started,
        TrialSortBy.END_TIME: lambda row: row.ended,
        TrialSortBy.DURATION: lambda row: None if row.started is None else (row.ended or now) - row.started,
        TrialSortBy.BATCHES_PROCESSED: lambda row: row.steps_completed,
        TrialSortBy.RESTARTS: lambda row: row.restarts,
        TrialSortBy.BEST_VALIDATION_METRIC: lambda row: row.best,
    }
    if sort_by is TrialSortBy.LATEST_VALIDATION_METRIC:
        return [row for row, _ in in_order(found, lambda pair: pair[1], order_by, lambda pair: pair[0].id)]
    return in_order([row for row, _ in found], values[sort_by], order_by, lambda row: row.id)
