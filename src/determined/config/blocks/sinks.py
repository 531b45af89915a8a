"""The `sinks` block: services to which the metrics of a run are forwarded. Each sink defines the model of its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError, create_model

from determined.config.blocks.block import Block
from determined.config.plain_data import without_nulls
from determined.config.registry.implementation import load
from determined.config.registry.sinks import SINKS
from determined.errors import InvalidExperimentConfig

if TYPE_CHECKING:
    Sinks = Block
else:
    Sinks = create_model(
        "Sinks",
        __base__=Block,
        __doc__="The `sinks` block. A service is used if it is given, also with an empty map.",
        **{name: (load(sink.implementation).Settings | None, None) for name, sink in SINKS.items()},
    )


def read_sinks(value: Any) -> dict[str, Block]:
    """Validate the `sinks` block of a standalone run and return the settings of each sink that it names.

    Return the settings of the sinks that it names.
    """
    from determined.config.reading.error_messages import from_validation

    try:
        sinks = Sinks.model_validate(without_nulls(value) if isinstance(value, dict) else value)
    except ValidationError as error:
        raise InvalidExperimentConfig(from_validation(error, Sinks, ("sinks",))) from None
    given = {name: getattr(sinks, name) for name in SINKS}
    return {name: settings for name, settings in given.items() if settings is not None}
