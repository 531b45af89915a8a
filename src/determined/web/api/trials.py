"""`/api/trials`: rows of the table of runs, and everything about one trial."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.shapes import ActionState, Plain, Summary
from determined.web.trial_rows import TrialRow

router = APIRouter(route_class=Route)


class TrialRows(TypedDict):
    """All trials, newest first. `pending_summaries` trials still lack statistics of the metrics that were asked for."""

    version: str
    rows: list[TrialRow]
    pending_summaries: int


class Attempt(TypedDict):
    """One execution of a trial's processes. `checkpoint` is the one that it started from."""

    number: int
    started: float
    ended: float | None
    first_batch: int
    last_batch: int | None
    checkpoint: str | None
    why_ended: str | None
    exit_code: int | None
    host: str
    state: str


class TrialMetric(TypedDict):
    """A metric that a trial has reported."""

    key: str
    group: str
    name: str
    numeric: bool
    summary: Summary


class OutputFile(TypedDict):
    """A file that a trial uploaded in addition to its checkpoints."""

    path: str
    bytes: int


class TrialDetail(TypedDict):
    """Everything about one trial but its curves, checkpoints and log."""

    version: str
    row: TrialRow
    attempts: list[Attempt]
    command: str | None
    git_commit: str | None
    source_checkpoint: str | None
    status: str
    reason: str | None
    goal: float | None
    rungs: list[float]
    bracket: int
    seed: int
    assigned_hparams: Plain
    metrics: list[TrialMetric]
    samples: list[str]
    outputs: list[OutputFile]
    metadata: dict[str, Any]
    actions: list[ActionState]
    commands: dict[str, str]
    python: dict[str, str]


@router.get("/api/trials")
def trials(
    request: Request,
    experiment: int | None = None,
    metrics: Annotated[list[str] | None, Query(alias="metric")] = None,
    archived: bool = False,
) -> TrialRows:
    """Return all trials, or those of an experiment, with the statistics of the named metrics."""
    raise not_yet()


@router.get("/api/trials/{trial_id}")
def trial(request: Request, trial_id: int) -> TrialDetail:
    """Return one trial."""
    raise not_yet()
