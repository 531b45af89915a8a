"""`MetricHistory`: the reported values of the metric by which an experiment or a trial is compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.sentences import first_few

if TYPE_CHECKING:
    from determined.curves.read import Column, Key
    from determined.store.experiment_records import Experiment

_GROUPS = ("validation", "training")  # groups in which a metric is searched, in this order


@dataclass(frozen=True)
class MetricHistory:
    """One metric of a trial, with all its values."""

    group: str
    name: str
    column: Column
    smaller_is_better: bool | None = None  # None if unknown

    @property
    def points(self) -> list[tuple[int, Any]]:
        """The steps and values, as stored."""
        return list(zip(self.column.steps.tolist(), self.column.reported, strict=True))

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


def measured(columns: Mapping[Key, Column], names: Sequence[str], group: str | None) -> MetricHistory | None:
    """Return the first of the names that was reported, in the first group that contains it, or None."""
    for name in names:
        for known in (group,) if group else _GROUPS:
            if (known, name) in columns:
                return MetricHistory(known, name, columns[known, name])
    return None


def names_to_try(experiment: Experiment, others: Sequence[str], keys: Iterable[Key], group: str | None) -> list[str]:
    """Return the metrics to look for: the searcher metric, or without one those of the other experiments, then any."""
    if experiment.metric is not None:
        return [experiment.metric]
    known = (group,) if group else _GROUPS
    return [*others, *sorted({name for in_group, name in keys if in_group in known})]


def direction(name: str, experiment: Experiment, others: Iterable[Experiment]) -> bool | None:
    """Return whether smaller is better according to the experiment, or to all others with the metric; else None."""
    if experiment.metric == name:
        return experiment.smaller_is_better
    directions = {other.smaller_is_better for other in others if other.metric == name}
    # Experiments that contradict each other leave the direction unknown.
    return directions.pop() if len(directions) == 1 else None


def reported_names(keys: Iterable[Key]) -> str:
    """Return the groups and names of all reported metrics, for a message."""
    return first_few(sorted({f"{group} {name}" for group, name in keys})) or "nothing"
