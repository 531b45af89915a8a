"""`/api/compare`: hyperparameters, configuration and code of several trials side by side."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.trial_rows import TrialRow

router = APIRouter(route_class=Route)


class ComparedValue(TypedDict):
    """One hyperparameter or setting: its value for each trial, null where it is missing, and whether they differ."""

    name: str
    values: list[Any]
    differs: bool


class ComparedFile(TypedDict):
    """A file of the code: for each trial which variant it has ("a", "b", ...), null where the file is missing."""

    path: str
    variants: list[str | None]
    differs: bool


class Comparison(TypedDict):
    """Trials side by side, in the order in which they were asked for."""

    version: str
    trials: list[TrialRow]
    hparams: list[ComparedValue]
    config: list[ComparedValue]
    code: list[ComparedFile]
    notes: list[str]


@router.get("/api/compare")
def compare(request: Request, trials: str) -> Comparison:
    """Return what the trials, given as `1,2,3`, have in common and in what they differ."""
    raise not_yet()
