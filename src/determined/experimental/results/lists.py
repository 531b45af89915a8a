"""Filter, sort and truncate lists of experiments, trials and models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from determined import ranking
from determined.config.metric_values import number
from determined.experimental.enums import ExperimentSortBy, ExperimentState, ModelSortBy, OrderBy, TrialSortBy

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store
    from determined.store.substores.registry import Model

T = TypeVar("T")

_EXPERIMENT_VALUES: dict[ExperimentSortBy, Callable[[Experiment], Any]] = {
    ExperimentSortBy.ID: lambda row: row.id,
    ExperimentSortBy.NAME: lambda row: row.name,
    ExperimentSortBy.DESCRIPTION: lambda row: row.description,
    ExperimentSortBy.USER: lambda row: row.owner,
    ExperimentSortBy.STATE: lambda row: row.state,
    ExperimentSortBy.PROGRESS: lambda row: row.progress,
    ExperimentSortBy.START_TIME: lambda row: row.created,
    ExperimentSortBy.END_TIME: lambda row: row.ended,
    ExperimentSortBy.NUM_TRIALS: lambda row: row.trial_count,
    ExperimentSortBy.FORKED_FROM: lambda row: row.parent_id,
    ExperimentSortBy.SEARCHER_METRIC_VAL: lambda row: row.best,
}
TrialsToSort = list[tuple["Trial", "float | None"]]  # with the newest validation if the list is sorted by it
_MODEL_VALUES: dict[ModelSortBy, Callable[[Model], Any]] = {
    ModelSortBy.NAME: lambda row: row.name,
    ModelSortBy.DESCRIPTION: lambda row: row.description,
    ModelSortBy.CREATION_TIME: lambda row: row.created,
    ModelSortBy.LAST_UPDATED_TIME: lambda row: row.updated,
    ModelSortBy.NUM_VERSIONS: lambda row: row.versions,
}


def in_order(
    items: Iterable[T], value_of: Callable[[T], Any], order_by: OrderBy, age_of: Callable[[T], Any]
) -> list[T]:
    """Return the items sorted by a value; missing values come last, and of equal ones the oldest first."""
    return ranking.in_order(items, value_of, age_of, descending=order_by is OrderBy.DESC)


def first(items: list[T], argument: str, count: int | None) -> list[T]:
    """Return the first `count` items, or all for None. A negative count would cut the end, and raises ValueError."""
    if count is not None and count < 0:
        raise ValueError(f"{argument} must be 0 or more, got {count}")
    return items[:count]


def matching_experiments(
    rows: Iterable[Experiment],
    ids: Sequence[int] | None,
    labels: Sequence[str] | None,
    users: Sequence[str] | None,
    states: Sequence[ExperimentState] | None,
    name: str | None,
) -> list[Experiment]:
    """Return the experiments that meet all criteria; None is no criterion. See `Determined.list_experiments`."""
    # Text is accepted as well as members; a wrong name raises here.
    wanted_states = None if states is None else {ExperimentState(state).value for state in states}
    return [
        row
        for row in rows
        if (ids is None or row.id in ids)
        and (labels is None or set(labels) <= set(row.labels))
        and (users is None or row.owner in users)
        and (wanted_states is None or row.state in wanted_states)
        # casefold compares text of any language without case.
        and (name is None or name.casefold() in row.name.casefold())
    ]


def ordered_experiments(rows: Iterable[Experiment], sort_by: ExperimentSortBy, order_by: OrderBy) -> list[Experiment]:
    """Return the experiments in the given order; of equal ones the oldest comes first."""
    return in_order(rows, _EXPERIMENT_VALUES[sort_by], order_by, lambda row: row.id)


def read_trials(store: Store, experiment_id: int, sort_by: TrialSortBy) -> TrialsToSort:
    """Return the trials of an experiment, with the newest validation if they are sorted by it."""
    rows = store.experiments.trials(experiment_id)
    # The newest validations need an additional query, so they are read only for this order.
    if sort_by is not TrialSortBy.LATEST_VALIDATION_METRIC:
        return [(row, None) for row in rows]
    metric = store.experiments.get(experiment_id).metric or ""
    newest = store.experiments.latest_validations(experiment_id)
    return [(row, number(newest.get(row.id, {}).get(metric))) for row in rows]


def ordered_trials(found: TrialsToSort, sort_by: TrialSortBy, order_by: OrderBy) -> list[Trial]:
    """Return the trials in the given order."""
    # One moment for all rows, so that their order is consistent.
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


def matching_models(
    rows: Iterable[Model], name: str | None, description: str | None, model_id: int | None
) -> list[Model]:
    """Return the models whose name and description contain the given texts, ignoring case; None is no criterion."""
    return [
        row
        for row in rows
        if (name is None or name.casefold() in row.name.casefold())
        and (description is None or description.casefold() in row.description.casefold())
        and model_id in (None, row.id)
    ]


def ordered_models(rows: Iterable[Model], sort_by: ModelSortBy, order_by: OrderBy) -> list[Model]:
    """Return the models in the given order; of equal ones the oldest comes first."""
    return in_order(rows, _MODEL_VALUES[sort_by], order_by, lambda row: row.id)
