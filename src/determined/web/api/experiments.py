"""`/api/experiments`: rows of the table of experiments, and everything about one experiment."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.shapes import ActionState, Number, Plain
from determined.web.api.trials import Pending

router = APIRouter(route_class=Route)


class ExperimentRow(TypedDict):
    """An experiment. `states` counts its trials by state; `failed` of them are in state ERROR."""

    id: int
    name: str
    description: str
    labels: list[str]
    state: str
    pending: Pending | None
    archived: bool
    owner: str
    host: str | None
    standalone: bool
    searcher: str | None
    metric: str | None
    smaller_is_better: bool
    best: Number
    best_trial: int | None
    progress: float | None
    created: float
    ended: float | None
    trials: int
    states: dict[str, int]
    failed: int
    checkpoint_bytes: int
    parent: int | None
    reason: str | None
    imported: bool
    has_notes: bool
    queued: bool
    abandoned: bool


class ExperimentRows(TypedDict):
    """All experiments, newest first."""

    version: str
    rows: list[ExperimentRow]


class Searched(TypedDict):
    """A hyperparameter of the search space. `low` and `high` are values, also for the kind "log"."""

    name: str
    kind: Literal["int", "double", "log", "categorical", "const"]
    low: Number
    high: Number
    values: list[Any]


class ExperimentDetail(TypedDict):
    """Everything about one experiment but its trials. `original` is the configuration as it was written."""

    version: str
    row: ExperimentRow
    config: Plain
    config_text: str
    original: str
    seed: int
    notes: str
    searched: list[Searched]
    actions: list[ActionState]
    commands: dict[str, str]
    python: dict[str, str]


@router.get("/api/experiments")
def experiments(request: Request, archived: bool = False) -> ExperimentRows:
    """Return all experiments."""
    raise not_yet()


@router.get("/api/experiments/{experiment_id}")
def experiment(request: Request, experiment_id: int) -> ExperimentDetail:
    """Return one experiment."""
    raise not_yet()
