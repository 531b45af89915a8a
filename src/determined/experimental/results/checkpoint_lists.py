"""Filter and sort lists of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from determined.config.metric_values import finite_number
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import CheckpointSortBy, CheckpointState, OrderBy
from determined.experimental.results.html_tables import ShownList
from determined.experimental.results.lists import first, in_order
from determined.ranking import best_first
from determined.store.ranking import age_of_checkpoint

SortBy = str | CheckpointSortBy


def listed(
    checkpoints: Iterable[Checkpoint],
    sort_by: SortBy | None,
    order_by: OrderBy | None,
    max_results: int | None,
    *,
    metric: str | None,
    smaller_is_better: bool,
) -> list[Checkpoint]:
    """Return the complete checkpoints in the given order; by default the best by the searcher metric come first."""
    if (sort_by is None) != (order_by is None):
        # AssertionError as in Determined, whose programs may catch it.
        raise AssertionError("sort_by and order_by must be given together")
    if sort_by is None or order_by is None:
        sort_by = CheckpointSortBy.SEARCHER_METRIC
        order_by = OrderBy.ASC if smaller_is_better else OrderBy.DESC
    complete = newest_first(checkpoints)
    return ShownList(first(in_order(complete, _value(sort_by, metric), order_by, _age), "max_results", max_results))


def best(
    checkpoints: Iterable[Checkpoint],
    sort_by: str | None,
    smaller_is_better: bool | None,
    *,
    metric: str | None,
    configured_direction: bool,
) -> list[Checkpoint]:
    """Return the complete checkpoints that have a number for the metric, best first."""
    name = metric if sort_by is None else sort_by
    if name is None:
        # These are added to every report and say nothing about a model.
        names = sorted({key for checkpoint in checkpoints for key in checkpoint._validation} - {"batches", "epochs"})
        raise ValueError(
            "the experiment recorded no searcher metric: pass sort_by and smaller_is_better. Validation metrics of its "
            f"checkpoints: {', '.join(names) or 'none'}"
        )
    if smaller_is_better is None:
        # Whether another metric should be small or large is not recorded.
        if name != metric:
            raise ValueError(
                f"the searcher compares trials by {metric!r}, not by {name!r}: pass smaller_is_better as well"
            )
        smaller_is_better = configured_direction
    return best_first(newest_first(checkpoints), _value(name, metric), _age, smaller_is_better=smaller_is_better)


def newest_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the complete checkpoints in the order of the store, newest first."""
    # Partially deleted ones cannot be loaded.
    return [checkpoint for checkpoint in checkpoints if checkpoint.state is CheckpointState.COMPLETED]


def _value(sort_by: SortBy, metric: str | None) -> Callable[[Checkpoint], Any]:
    """Return the function that gives the value to sort by."""
    if isinstance(sort_by, str):
        return lambda checkpoint: finite_number(checkpoint._validation.get(sort_by))
    if not isinstance(sort_by, CheckpointSortBy):
        raise TypeError(f"sort_by must be the name of a metric or a CheckpointSortBy, got {sort_by!r}")
    values: dict[CheckpointSortBy, Callable[[Checkpoint], Any]] = {
        CheckpointSortBy.UUID: lambda checkpoint: checkpoint.uuid,
        CheckpointSortBy.TRIAL_ID: lambda checkpoint: checkpoint.training.trial_id,
        CheckpointSortBy.BATCH_NUMBER: lambda checkpoint: checkpoint._steps_completed,
        CheckpointSortBy.END_TIME: lambda checkpoint: checkpoint.report_time,
        CheckpointSortBy.STATE: lambda checkpoint: checkpoint.state.value,
        CheckpointSortBy.SEARCHER_METRIC: lambda checkpoint: finite_number(checkpoint._validation.get(metric or "")),
    }
    return values[sort_by]


def _age(checkpoint: Checkpoint) -> tuple[int, int]:
    return age_of_checkpoint(checkpoint._row)
