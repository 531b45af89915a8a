"""`/api/models`: the registered models and their versions, as `det model` shows them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.config.secrets.masking import mask_secrets
from determined.store.substores.registry import Model
from determined.web.answers import Route, representable
from determined.web.api.checkpoints import ShownCheckpoint, checkpoint_rows
from determined.web.api.shapes import Plain
from determined.web.identifiers import Id
from determined.web.state import reading, version

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
    checkpoint: ShownCheckpoint


class ModelDetail(TypedDict):
    """A model and its versions, newest first."""

    version: str
    row: ModelRow
    versions: list[ModelVersionRow]


@router.get("/api/models")
def models(request: Request) -> ModelRows:
    """Return all models."""
    seen = version(request)
    with reading(request) as store:
        return {"version": seen, "rows": [_row(model) for model in reversed(store.registry.models())]}


@router.get("/api/models/{model_id}")
def model(request: Request, model_id: Id) -> ModelDetail:
    """Return one model and its versions."""
    seen = version(request)
    with reading(request) as store:
        found = store.registry.model(model_id)
        rows = store.registry.versions(model_id)
        checkpoints = {
            row["id"]: row for row in checkpoint_rows(store, [store.upkeep.checkpoint(one.checkpoint) for one in rows])
        }
    versions: list[ModelVersionRow] = [
        {
            "number": one.number,
            "name": one.name,
            "notes": one.notes,
            "labels": one.labels,
            "metadata": representable(mask_secrets(one.metadata)),
            "created": one.created,
            "updated": one.updated,
            "checkpoint": checkpoints[one.checkpoint],
        }
        for one in rows
    ]
    return {"version": seen, "row": _row(found), "versions": versions}


def _row(model: Model) -> ModelRow:
    """Return a model as it is sent."""
    return {
        "id": model.id,
        "name": model.name,
        "description": model.description,
        "notes": model.notes,
        "labels": model.labels,
        "metadata": representable(mask_secrets(model.metadata)),
        "owner": model.owner,
        "archived": model.archived,
        "created": model.created,
        "updated": model.updated,
        "versions": model.versions,
    }
