"""`Comparison`: trials side by side, with their curves in a notebook and as a table elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from determined.experimental.charts.selection import MOST_TRIALS, choose
from determined.experimental.experiment import Experiment
from determined.experimental.results.html_tables import ShownList, table_of
from determined.experimental.session import Session
from determined.experimental.trial import Trial

if TYPE_CHECKING:
    from determined.curves.chart_data import Axis
    from determined.experimental.charts.data import ChartData

Compared = Trial | Experiment | SupportsIndex


class Comparison:
    """Trials side by side, as they were when `compare()` was called.

    A notebook shows their curves and a table; elsewhere the table is text.
    """

    def __init__(self, session: Session, data: ChartData) -> None:
        self._data = data
        self._trials = ShownList(Trial(session, row) for row in data.trials)

    @property
    def trials(self) -> list[Trial]:
        """The compared trials."""
        return self._trials

    @property
    def metric(self) -> str | None:
        """The metric that is drawn first, as `group/name`; None if no trial has reported a number."""
        return self._data.metric

    def __repr__(self) -> str:
        from determined.experimental.charts.text import comparison_text

        return comparison_text(self._data)

    def _repr_html_(self) -> str:
        from determined.experimental.charts.frame import chart_html

        return chart_html(self._data) + table_of(self._trials)


def compare(
    session: Session,
    runs: Iterable[Compared] | Compared,
    metric: str | None = None,
    *,
    axis: Axis = "batches",
    max_trials: int = MOST_TRIALS,
) -> Comparison:
    """Return the comparison of trials; see `Determined.compare`."""
    # Imported on use: most programs compare nothing.
    from determined.experimental.charts.data import read_chart

    if max_trials < 1:
        raise ValueError(f"max_trials must be at least 1, got {max_trials}")
    trial_ids: list[int] = []
    experiment_ids: list[int] = []
    items: Iterable[Any] = [runs] if isinstance(runs, (Trial, Experiment, SupportsIndex)) else runs
    for item in items:
        if isinstance(item, (Trial, Experiment)):
            if item._session.place != session.place:
                raise ValueError(f"{item!r} belongs to another store")
            (trial_ids if isinstance(item, Trial) else experiment_ids).append(item.id)
        elif isinstance(item, SupportsIndex):
            trial_ids.append(operator.index(item))
        else:
            raise TypeError(f"expected a trial, an experiment or the id of a trial, got {item!r}")
    if not trial_ids and not experiment_ids:
        raise ValueError("nothing to compare: pass trials, experiments or ids of trials")
    return Comparison(
        session,
        session.read(
            lambda store: read_chart(store, choose(store, trial_ids, experiment_ids, max_trials), metric, axis)
        ),
    )
