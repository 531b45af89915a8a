"""The `sinks` block: services to which the metrics of a run are forwarded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ValidationError

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.plain_data import without_nulls
from determined.config.validators import FilledText
from determined.errors import InvalidExperimentConfig

Mode = Annotated[Literal["online", "offline"], validators.choice("online", "offline")]


class Mlflow(Block):
    """Settings for MLflow.

    Fields that are not set follow MLflow's environment variables, such as MLFLOW_TRACKING_URI.
    """

    tracking_uri: FilledText | None = None
    experiment: FilledText | None = None


class Wandb(Block):
    """Settings for Weights & Biases.

    Fields that are not set follow its variables, such as WANDB_PROJECT and WANDB_MODE.
    """

    project: FilledText | None = None
    entity: FilledText | None = None
    mode: Mode | None = None


class Trackio(Block):
    """Settings for Trackio: a project on this machine, or in a Hugging Face space."""

    project: FilledText | None = None
    space_id: FilledText | None = None


class Sinks(Block):
    """The `sinks` block. A service is used if it is given, also with an empty map."""

    mlflow: Mlflow | None = None
    wandb: Wandb | None = None
    trackio: Trackio | None = None


def read_sinks(value: Any) -> Sinks:
    """Validate the block of a standalone run, whose configuration is not validated as a whole."""
    from determined.config.reading.error_messages import from_validation

    try:
        return Sinks.model_validate(without_nulls(value) if isinstance(value, dict) else value)
    except ValidationError as error:
        raise InvalidExperimentConfig(from_validation(error, Sinks, ("sinks",))) from None
