"""`Comparison`: trials side by side, with their curves in a notebook and as a table elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from determined.curves.chart_data import Axis
from determined.experimental.charts.data import ChartData, read_chart, short_value
from determined.experimental.charts.selection import MOST_TRIALS, choose
from determined.experimental.experiment import Experiment
from determined.experimental.results.html_tables import ShownList, table_of
from determined.experimental.session import Session
from determined.experimental.trial import Trial
from determined.plural import counted

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial as TrialRow

Compared = Trial | Experiment | SupportsIndex

_MOST_ROWS = 100  # of the text
_MOST_SETTINGS = 6
_WIDEST = 32


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
        return "\n".join([*_lines(self._data), *map(_visible, self._data.notes)])

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


def _lines(data: ChartData) -> list[str]:
    """Return the comparison as lines of text."""
    by = "no numbers reported yet" if data.metric is None else f"{_visible(data.metric)} over {data.axis}"
    settings = list(dict.fromkeys(name for row in data.trials for name in data.settings[row.id]))[:_MOST_SETTINGS]
    heads = ["trial", "experiment", "state", "points", "last", "min", "max", *settings]
    rows = [heads, *(_cells(data, row, settings) for row in data.trials[:_MOST_ROWS])]
    shown = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]
    more = [f"and {len(data.trials) - _MOST_ROWS:,} more"] if len(data.trials) > _MOST_ROWS else []
    return [f"{counted(len(data.trials), 'trial')}: {by}", *lines, *more]


def _cells(data: ChartData, row: TrialRow, settings: Sequence[str]) -> list[str]:
    found = data.statistics.get(row.id)
    values = (
        ["0", "", "", ""] if found is None else [str(found.points), *map(_number, (found.last, found.low, found.high))]
    )
    experiment = f"{row.experiment_id} {data.experiments[row.experiment_id].name}".rstrip()
    own = data.settings[row.id]
    return [str(row.id), experiment, row.state, *values, *(short_value(own.get(name, "")) for name in settings)]


def _number(value: Any) -> str:
    return "" if value is None else short_value(value)


def _visible(text: str) -> str:
    """Return a text without control characters, which could rewrite the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _cell(text: str) -> str:
    """Return a text for a column."""
    text = _visible(text)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
