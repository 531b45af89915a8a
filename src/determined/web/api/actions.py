"""`/api/actions`: everything that changes something. Each action calls the function that its `det` command calls."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet

router = APIRouter(route_class=Route)

ActionName = Literal[
    "pause",
    "activate",
    "cancel",
    "kill",
    "kill_trial",
    "continue",
    "extend",
    "fork",
    "archive",
    "unarchive",
    "label",
    "unlabel",
    "rename",
    "describe",
    "note",
    "register",
    "delete",
    "delete_checkpoint",
]


class Options(BaseModel):
    """What an action needs to know besides the ids; each action uses some of these and ignores none that is set."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(default=None, max_length=1_000_000)
    """The label, name, description, notes, or the name of a model."""
    max_trials: int | None = Field(default=None, ge=1)
    """The new number of trials of a search, for "extend"."""
    slots: int | None = Field(default=None, ge=1)
    """The number of slots to use, for actions that queue the experiment."""
    config: list[str] = Field(default=[], max_length=200)
    """Settings to change, each `KEY=VALUE`, for "continue" and "fork"."""
    from_checkpoint: str | None = None
    """For "fork": "best", "latest", or the id of a checkpoint."""
    create_model: bool = False
    """For "register": create the model if there is none of this name."""


class ActionRequest(BaseModel):
    """An action on explicit ids: of experiments; of trials for "kill_trial"; of checkpoints for the others."""

    model_config = ConfigDict(extra="forbid")

    action: ActionName
    ids: list[int] | list[str] = Field(min_length=1, max_length=10_000)
    options: Options = Options()


class ActionResult(TypedDict):
    """What came of an action for one id. `created` is the id of a new experiment."""

    id: int | str
    ok: bool
    message: str
    created: int | None


class ActionResults(TypedDict):
    """What came of an action, for each id in the order of the request."""

    results: list[ActionResult]


class PreviewItem(TypedDict):
    """Something that would be deleted."""

    name: str
    bytes: int


class Preview(TypedDict):
    """What an action would do, for a question to the user."""

    text: str
    items: list[PreviewItem]
    bytes: int
    refused: list[str]


@router.post("/api/actions")
def act(request: Request, body: ActionRequest) -> ActionResults:
    """Carry out an action, or request it from the process that runs the experiment."""
    raise not_yet()


@router.post("/api/actions/preview")
def preview(request: Request, body: ActionRequest) -> Preview:
    """Return what a deletion would delete, with sizes, and what speaks against it."""
    raise not_yet()
