"""`/api/checkpoints`: the checkpoints of an experiment or a trial, and the comparison of one with its hashes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.shapes import Number, Plain

router = APIRouter(route_class=Route)


class CheckpointFile(TypedDict):
    """A file of a checkpoint."""

    path: str
    bytes: int


class CheckpointRow(TypedDict):
    """A checkpoint. `incomplete` and `pickled` name parts of its state; `used_by` says who needs it."""

    id: str
    trial: int
    trial_number: int
    experiment: int
    attempt: int
    batches: int
    metric: Number
    state: str
    bytes: int
    created: float
    storage: str
    files: list[CheckpointFile]
    incomplete: list[str]
    pickled: list[str]
    metadata: Plain
    used_by: list[str]
    registered: list[str]
    best: bool


class CheckpointRows(TypedDict):
    """Checkpoints, newest first."""

    version: str
    rows: list[CheckpointRow]


class Verified(TypedDict):
    """The result of comparing the files of a checkpoint with the hashes that were stored with them."""

    ok: bool
    problems: list[str]
    files: int
    bytes: int


@router.get("/api/experiments/{experiment_id}/checkpoints")
def of_experiment(request: Request, experiment_id: int) -> CheckpointRows:
    """Return the checkpoints of all trials of an experiment."""
    raise not_yet()


@router.get("/api/trials/{trial_id}/checkpoints")
def of_trial(request: Request, trial_id: int) -> CheckpointRows:
    """Return the checkpoints of a trial."""
    raise not_yet()


@router.post("/api/checkpoints/{checkpoint_id}/verify")
def verify(request: Request, checkpoint_id: str) -> Verified:
    """Read the files of a checkpoint and compare them with the hashes that were stored with them."""
    raise not_yet()
