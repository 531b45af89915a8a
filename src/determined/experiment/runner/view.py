"""The state of a running experiment as shown to a user who watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TrialView:
    """The current state of one trial."""

    id: int
    number: int
    state: str
    hparams: dict[str, Any]
    bracket: int
    rung: int  # number of rungs of its bracket that it has passed
    goal: float | None
    progress: float | None
    has_started: bool  # whether it was started at least once
    steps: int
    metric: float | None  # newest value of the searcher metric
    best: float | None
    restarts: int
    started_at: float | None = None  # when this runner started it last, in seconds as `View.seconds`
    state_since: float | None = None  # when this runner changed its state to the present one
    values: tuple[float, ...] = ()  # newest values of the searcher metric, the latest last
    nodes: tuple[str, ...] = ()  # node of each rank of its processes; empty on a single machine


@dataclass(frozen=True)
class RungView:
    """A length at which trials of a bracket are compared, with the numbers of trials that reached or approach it."""

    bracket: int
    time: float
    reached: int
    running: int


@dataclass(frozen=True)
class View:
    """The current state of an experiment."""

    experiment_id: int
    name: str
    state: str
    progress: float
    slots: int
    used: int
    trials: tuple[TrialView, ...]
    planned: int | None  # number of trials, if known
    rungs: tuple[RungView, ...]
    best: TrialView | None
    metric_name: str
    smaller_is_better: bool
    time_metric: str  # unit of the rungs, such as batches
    searched: tuple[str, ...]  # dotted names of the hyperparameters that differ between trials
    seconds: float
    trials_per_hour: float
    seconds_left: float | None


Observer = Callable[[View], None]
