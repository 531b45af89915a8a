"""What a person watches while an experiment runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TrialView:
    """One trial, as it stands now."""

    id: int
    number: int
    state: str
    hparams: dict[str, Any]
    bracket: int
    rung: int  # how many of its bracket's rungs it has passed
    goal: float | None
    progress: float | None
    has_started: bool  # at least once
    steps: int
    metric: float | None  # the newest value of the searcher's metric
    best: float | None
    restarts: int
    values: tuple[float, ...] = ()  # the newest values of the searcher's metric, the latest last


@dataclass(frozen=True)
class RungView:
    """A time at which trials of a bracket are compared: how many came as far, and how many are on their way."""

    bracket: int
    time: float
    reached: int
    at_work: int


@dataclass(frozen=True)
class View:
    """An experiment, as it stands now."""

    experiment_id: int
    name: str
    state: str
    progress: float
    slots: int
    used: int
    trials: tuple[TrialView, ...]
    planned: int | None  # how many trials there will be, as far as that is known
    rungs: tuple[RungView, ...]
    best: TrialView | None
    metric_name: str
    smaller_is_better: bool
    time_metric: str  # what rungs are measured in, such as batches
    searched: tuple[str, ...]  # names of the hyperparameters that differ between trials, with dots
    seconds: float
    trials_per_hour: float
    seconds_left: float | None


Observer = Callable[[View], None]
