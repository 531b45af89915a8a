"""`MetricHistory`: the reported values of the metric by which an experiment or a trial is compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.cli.display.table import first_few

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.records import Metric

_GROUPS = ("validation", "training")  # groups in which a metric is searched, in this order


@dataclass(frozen=True)
class MetricHistory:
    """One metric of a trial, with all its values."""

    group: str
    name: str
    points: list[tuple[int, Any]]  # step and value, as stored
    smaller_is_better: bool | None = None  # None if unknown

    @property
    def described(self) -> str:
        """The group, name and direction of the metric."""
        way = {True: " (smaller is better)", False: " (larger is better)", None: ""}[self.smaller_is_better]
        return f"{self.group} {self.name}{way}"

    @property
    def best(self) -> tuple[int, float] | None:
        """The step and value of the best finite value, or of the newest one if the direction is unknown; else None."""
        from determined.config.metric_values import finite_number
        from determined.ranking import best_first

        finite = [(step, value) for step, kept in self.points if (value := finite_number(kept)) is not None]
        if self.smaller_is_better is None:
            return finite[-1] if finite else None
        ranked = best_first(
            finite, lambda point: point[1], lambda point: point[0], smaller_is_better=self.smaller_is_better
        )
        return next(iter(ranked), None)


def measured(reports: Sequence[Metric], names: Sequence[str], group: str | None) -> MetricHistory | None:
    """Return the first of the names that was reported, in the first group that contains it, or None."""
    for name in names:
        for known in (group,) if group else _GROUPS:
            rows = [row for row in reports if row.group == known and name in row.metrics]
            if rows:
                points = sorted(((row.steps_completed or 0, row.metrics[name]) for row in rows), key=lambda at: at[0])
                return MetricHistory(known, name, points)
    return None


def names_to_try(
    experiment: Experiment, others: Sequence[str], reports: Iterable[Metric], group: str | None
) -> list[str]:
    """Return the metrics to look for: the searcher metric, or without one those of the other experiments, then any."""
    if experiment.metric is not None:
        return [experiment.metric]
    known = (group,) if group else _GROUPS
    return [*others, *sorted({name for row in reports if row.group in known for name in row.metrics})]


def direction(name: str, experiment: Experiment, others: Iterable[Experiment]) -> bool | None:
    """Return whether smaller is better according to the experiment, or to all others with the metric; else None."""
    if experiment.metric == name:
        return experiment.smaller_is_better
    directions = {other.smaller_is_better for other in others if other.metric == name}
    # Experiments that contradict each other leave the direction unknown.
    return directions.pop() if len(directions) == 1 else None


def reported_names(reports: Iterable[Metric]) -> str:
    """Return the groups and names of all reported metrics, for a message."""
    names = {f"{row.group} {name}" for row in reports for name in row.metrics}
    return first_few(sorted(names)) or "nothing"
