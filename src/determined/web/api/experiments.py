"""`/api/experiments`: rows of the table of experiments, and everything about one experiment."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.shapes import ActionState, Number, Plain
from determined.web.experiment_rows import ExperimentRow

router = APIRouter(route_class=Route)


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
