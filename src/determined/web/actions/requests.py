"""The request bodies by which the page asks for a change."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from determined.web.identifiers import Id

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


def _without_nul(text: str) -> str:
    """Refuse a text with a NUL character, which configurations and databases cannot store."""
    if "\0" in text:
        raise PydanticCustomError("nul", "holds a character that is no text")
    return text


Text = Annotated[str, AfterValidator(_without_nul)]
_SEVERAL = Field(min_length=1, max_length=10_000)


class Options(BaseModel):
    """The options of an action, besides the ids; each action uses some of these and ignores the others."""

    model_config = ConfigDict(extra="forbid")

    text: Text | None = Field(default=None, max_length=1_000_000)
    """The label, name, description, notes, or the name of a model."""
    max_trials: int | None = Field(default=None, ge=1)
    """The new number of trials of a search, for "extend"."""
    slots: int | None = Field(default=None, ge=1)
    """The number of slots to use, for actions that queue the experiment."""
    config: list[Text] = Field(default=[], max_length=200)
    """Settings to change, each `KEY=VALUE`, for "continue" and "fork"."""
    from_checkpoint: Text | None = None
    """For "fork": "best", "latest", or the id of a checkpoint."""
    create_model: bool = False
    """For "register": create the model if there is none of this name."""


class ActionRequest(BaseModel):
    """An action on ids of experiments.

    "kill_trial" acts on ids of trials, "register" and "delete_checkpoint" on ids of checkpoints.
    """

    model_config = ConfigDict(extra="forbid")

    action: ActionName
    ids: Annotated[list[Id], _SEVERAL] | Annotated[list[Annotated[str, Field(max_length=200)]], _SEVERAL]
    options: Options = Options()
