"""`/api/models`: what `det model` shows."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.checkpoints import CheckpointRow
from determined.web.api.shapes import Plain

router = APIRouter(route_class=Route)


class ModelRow(TypedDict):
    """A registered model."""

    id: int
    name: str
    description: str
    notes: str
    labels: list[str]
    metadata: Plain
    owner: str
    archived: bool
    created: float
    updated: float
    versions: int


class ModelRows(TypedDict):
    """All models, newest first."""

    version: str
    rows: list[ModelRow]


class ModelVersionRow(TypedDict):
    """A version of a model and its checkpoint."""

    number: int
    name: str
    notes: str
    labels: list[str]
    metadata: Plain
    created: float
    updated: float
    checkpoint: CheckpointRow


class ModelDetail(TypedDict):
    """A model and its versions, newest first."""

    version: str
    row: ModelRow
    versions: list[ModelVersionRow]


@router.get("/api/models")
def models(request: Request) -> ModelRows:
    """Return all models."""
    raise not_yet()


@router.get("/api/models/{model_id}")
def model(request: Request, model_id: int) -> ModelDetail:
    """Return one model and its versions."""
    raise not_yet()
