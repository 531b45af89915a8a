"""The `sinks` block: services that are told as well what a run reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ValidationError

from determined.config import kinds
from determined.config.block import Block
from determined.config.kinds import FilledText
from determined.config.plain import without_nulls
from determined.errors import InvalidExperimentConfig

Mode = Annotated[Literal["online", "offline"], kinds.choice("online", "offline")]


class Mlflow(Block):
    """What is left out is up to MLflow's own variables, such as MLFLOW_TRACKING_URI."""

    tracking_uri: FilledText | None = None
    experiment: FilledText | None = None


class Wandb(Block):
    """What is left out is up to Weights & Biases' own variables, such as WANDB_PROJECT and WANDB_MODE."""

    project: FilledText | None = None
    entity: FilledText | None = None
    mode: Mode | None = None


class Trackio(Block):
    """A project on this machine, or in a space on Hugging Face."""

    project: FilledText | None = None
    space_id: FilledText | None = None


class Sinks(Block):
    """A service that is named is told, with `{}` by the settings of its own variables."""

    mlflow: Mlflow | None = None
    wandb: Wandb | None = None
    trackio: Trackio | None = None


def read_sinks(value: Any) -> Sinks:
    """The block of a run by hand, whose configuration nobody has checked as a whole."""
    from determined.config.mistakes import from_validation

    try:
        return Sinks.model_validate(without_nulls(value) if isinstance(value, dict) else value)
    except ValidationError as error:
        raise InvalidExperimentConfig(from_validation(error, Sinks, ("sinks",))) from None
