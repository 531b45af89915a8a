"""The best validation of each trial by the metric of its experiment, stored in the trial's row.

Only reports of the chief (rank 0) count.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from determined.config.metric_values import finite_number
from determined.ranking import best_first
from determined.store.databases.base import Database


def keep_best(database: Database, trial_id: int, written: Collection[int] | None = None) -> None:
    """Update a trial's stored best validation after its metrics changed.

    `written` are the steps whose validations were written; None means that any validation may have changed, so all are
    read. The caller must have locked the trial's row: otherwise two transactions could overwrite each other's result.
    """
    ((metric, smaller_is_better, value, step),) = database.execute(
        "SELECT e.metric, e.smaller_is_better, t.best_metric, t.best_step FROM trials t "
        "JOIN experiments e ON e.id = t.experiment_id WHERE t.id = ?",
        [trial_id],
    )
    if metric is None:  # a standalone run for which no metric is known
        return
    known = None if value is None else (value, step)
    if written is None or step in written:  # the current best may have been overwritten: read all validations
        best = _best(_values(database, trial_id, metric), smaller_is_better)
    else:
        # A range and not a list of steps, because the number of bound values is limited. Validations in between change
        # nothing: they were considered when they were written.
        new = _values(database, trial_id, metric, "AND step BETWEEN ? AND ?", [min(written), max(written)])
        best = _best([*new, known] if known is not None else new, smaller_is_better)
    if best != known:
        database.execute(
            "UPDATE trials SET best_metric = ?, best_step = ? WHERE id = ?",
            [*(best or (None, None)), trial_id],
        )


def best_of_experiment(database: Database, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
    """Return the best value of the given validation metric over the trials of an experiment.

    All validations are read. The best value of the experiment's own metric is in the trials' rows and needs no such
    scan.
    """
    found = best_of_trials(database, experiment_id, metric, smaller_is_better).values()
    return (min if smaller_is_better else max)(found, default=None)


def best_of_trials(database: Database, experiment_id: int, metric: str, smaller_is_better: bool) -> dict[int, float]:
    """Return the best value of any validation metric for each trial of an experiment, by trial id."""
    found = database.execute(
        "SELECT m.trial_id, m.body FROM metrics m JOIN trials t ON t.id = m.trial_id "
        "WHERE t.experiment_id = ? AND m.metric_group = 'validation' AND m.archived = 0 AND m.rank = 0",
        [experiment_id],
    )
    values: dict[int, list[float]] = {}
    for number, trial_id in _numbers(found, metric):
        values.setdefault(trial_id, []).append(number)
    return {trial_id: (min if smaller_is_better else max)(numbers) for trial_id, numbers in values.items()}


def _values(
    database: Database, trial_id: int, metric: str, condition: str = "", values: Iterable[int] = ()
) -> list[tuple[float, int]]:
    """Return (value, step) for each validation of a trial that reported a finite value of the metric."""
    found = database.execute(
        "SELECT step, body FROM metrics WHERE trial_id = ? AND metric_group = 'validation' AND archived = 0 "
        f"AND rank = 0 {condition}",
        [trial_id, *values],
    )
    return _numbers(found, metric)


def _numbers(rows: Iterable[tuple[Any, ...]], metric: str) -> list[tuple[float, int]]:
    """Return (value, key) for each row whose report has a finite value of the metric.

    `rows` are pairs of a key (a step or a trial id) and a report as JSON.
    """
    # NaN and infinities are no candidates: they must not win, in either direction.
    numbers = ((finite_number(json.loads(body).get(metric)), of) for of, body in rows)
    return [(number, of) for number, of in numbers if number is not None]


def _best(numbers: Collection[tuple[float, int]], smaller_is_better: bool) -> tuple[float, int] | None:
    """Return the best (value, step) pair, or None. Among equal values, the one with the smallest step."""
    ranked = best_first(numbers, lambda pair: pair[0], lambda pair: pair[1], smaller_is_better=smaller_is_better)
    return next(iter(ranked), None)
