"""The trials of an experiment, best first, with their metric and searched hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from determined.cli.display.json_rows import trial_plain
from determined.cli.display.output import Field
from determined.cli.display.times import ago, duration, time_text
from determined.config.flattening import flat
from determined.config.metric_values import number
from determined.experiment.searched_names import searched_names
from determined.ranking import in_order, ranked

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store


@dataclass(frozen=True)
class Entry:
    """A trial with the best and the newest value of the metric it is compared by."""

    trial: Trial
    best: float | None
    latest: float | None
    hparams: dict[str, Any]  # flattened, with dots in the names

    @property
    def seconds(self) -> float | None:
        """The seconds from the start of the trial to its end, or until now; None if it has not started or is paused."""
        if self.trial.started is None or (self.trial.ended is None and self.trial.state == "PAUSED"):
            return None
        return max(0.0, (time.time() if self.trial.ended is None else self.trial.ended) - self.trial.started)


@dataclass(frozen=True)
class Leaderboard:
    """The trials of an experiment in the order to be shown."""

    experiment: Experiment
    metric: str | None
    searched: list[str]
    entries: list[Entry]

    def fields(self) -> list[Field[Entry]]:
        """Return the columns.

        In pipes only the columns of the original Determined are shown by default, in its order, because scripts rely on
        them.
        """
        measured: list[Field[Entry]] = []
        if self.metric is not None:
            measured = [
                Field(f"Best {self.metric}", lambda row: row.best, shown="terminal", long=True, rank=0),
                Field("Latest", lambda row: row.latest, shown="terminal", rank=2),
            ]
        searched: list[Field[Entry]] = [
            Field(name, _hparam(name), shown="terminal", long=True, rank=3) for name in self.searched
        ]
        return [
            Field("Trial ID", lambda row: row.trial.id, rank=0),
            Field("State", lambda row: row.trial.state, rank=0),
            *measured,
            *searched,
            Field(
                "H-Params",
                lambda row: row.trial.effective_hparams,
                shown="pipe" if self.searched else "everywhere",
                long=True,
            ),
            Field(
                "Started",
                lambda row: time_text(row.trial.started),
                on_terminal=lambda row: ago(row.trial.started),
                rank=4,
            ),
            Field("Ended", lambda row: time_text(row.trial.ended), shown="pipe"),
            Field("# of Batches", lambda row: row.trial.steps_completed, rank=4),
            Field("Duration", _duration, shown="terminal", rank=4),
        ]

    def plain(self, entry: Entry) -> dict[str, Any]:
        """Return an entry as JSON data."""
        return {**trial_plain(entry.trial), "latest": entry.latest}


def leaderboard(
    store: Store,
    experiment: Experiment,
    *,
    sort_by: str | None = None,
    smaller_is_better: bool | None = None,
    reverse: bool = False,
) -> Leaderboard:
    """Return the trials sorted by the searcher metric, or by `sort_by`: see `list-trials --help`.

    Raises a usage error if `sort_by` is unknown, or a metric whose direction is not given.
    """
    trials = store.experiments.trials(experiment.id)
    searched = searched_names(experiment, trials)
    newest = store.experiments.latest_validations(experiment.id)
    # Flattened names, as they are shown and typed.
    known = {name for trial in trials for name in flat(trial.effective_hparams)}
    metric = experiment.metric
    best = {trial.id: trial.best for trial in trials}
    direction = experiment.smaller_is_better
    named = None if sort_by is None else sort_by.lower()
    other = sort_by is not None and named not in _ORDERS and sort_by not in known and sort_by != metric
    if other:
        assert sort_by is not None
        if not any(sort_by in report for report in newest.values()):
            reported = sorted({name for report in newest.values() for name in report})
            raise click.UsageError(
                f"--sort-by: no trial of experiment {experiment.id} has a validation metric or hyperparameter "
                f"{sort_by!r}. Metrics: {', '.join(reported) or 'none'}. Hyperparameters: "
                f"{', '.join(sorted(known)) or 'none'}. Also: {', '.join(_ORDERS)}"
            )
        if smaller_is_better is None:
            raise click.UsageError(f"--sort-by {sort_by} needs --smaller-is-better true or false")
        metric, direction = sort_by, smaller_is_better
        # Computed by the database from all reports, since the row only has the best searcher metric.
        best = {**store.experiments.best_of_trials(experiment.id, metric, direction)}
    elif smaller_is_better is not None:
        raise click.UsageError("--smaller-is-better requires --sort-by with a metric other than the searcher metric")
    entries = [
        Entry(
            trial,
            best.get(trial.id),
            None if metric is None else number(newest.get(trial.id, {}).get(metric)),
            flat(trial.effective_hparams),
        )
        for trial in trials
    ]
    if sort_by is None or other or named == "best" or sort_by == experiment.metric:
        smaller = direction if not reverse else not direction
        entries = ranked(entries, lambda row: row.best, _age, smaller_is_better=smaller)
    elif named == "latest":
        smaller = direction if not reverse else not direction
        entries = ranked(entries, lambda row: row.latest, _age, smaller_is_better=smaller)
    else:
        assert named is not None
        value_of = _ORDERS.get(named) or _comparable(sort_by or "")
        entries = in_order(entries, value_of, _age, descending=reverse)
    return Leaderboard(experiment, metric, searched, entries)


def _age(entry: Entry) -> int:
    return entry.trial.id


_ORDERS: dict[str, Callable[[Entry], Any]] = {
    "best": lambda row: row.best,
    "latest": lambda row: row.latest,
    "id": lambda row: row.trial.id,
    "state": lambda row: row.trial.state,
    "started": lambda row: row.trial.started,
    "ended": lambda row: row.trial.ended,
    "duration": lambda row: row.seconds,
    "batches": lambda row: row.trial.steps_completed,
}


def _comparable(name: str) -> Callable[[Entry], Any]:
    """Return a sort key for a hyperparameter: numbers first, by value, then everything else by its text."""

    def key(entry: Entry) -> Any:
        value = entry.hparams.get(name)
        if value is None:
            return None
        found = number(value)
        # Tuples, so that numbers and texts can be compared with each other.
        return (0, found, "") if found is not None else (1, 0.0, str(value))

    return key


def _hparam(name: str) -> Callable[[Entry], Any]:
    return lambda entry: entry.hparams.get(name)


def _duration(entry: Entry) -> str:
    return "" if entry.seconds is None else duration(entry.seconds)
