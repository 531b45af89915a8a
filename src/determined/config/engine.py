"""Which engine runs an experiment: `local`, or `ray` with the address of a cluster (`resources.engine`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainValidator

from determined.config import validators
from determined.errors import InvalidConfigurationException

VARIABLE = "DET_ENGINE"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class EngineChoice:
    """The engine of an experiment. `address` is that of Ray's head (GCS); None means the cluster of this machine."""

    name: str = "local"
    address: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether jobs run on this machine only."""
        return self.name == "local"

    def __str__(self) -> str:
        return self.name if self.address is None else f"{self.name}:{self.address}"


def parse_engine(text: str, source: str) -> EngineChoice:
    """Return the engine that a text names; raise InvalidConfigurationException with the source otherwise."""
    name, colon, address = text.strip().partition(":")
    if name == "ray" and address.startswith("//"):
        raise InvalidConfigurationException(
            message=f"{source}: {text} is an address of the Ray Client, through which Ray does not pass on placement "
            "groups and signals; run the command on a node of the cluster with --engine ray, or from elsewhere with "
            "`ray job submit -- det …`"
        )
    if name == "ray" and (not colon or _ADDRESS.fullmatch(address)):
        return EngineChoice("ray", address or None)
    if text.strip() == "local":
        return EngineChoice()
    raise InvalidConfigurationException(
        message=f"{source}: unknown engine {text!r}; use local, ray or ray:HOST:PORT (the address of Ray's head)"
    )


def _engine(value: Any) -> str:
    """Return the name of an engine in its normal form. Raise otherwise."""
    if not isinstance(value, str):
        raise validators.refusal("an engine: local, ray or ray:HOST:PORT")
    try:
        return str(parse_engine(value, "resources.engine"))
    except InvalidConfigurationException:
        raise validators.refusal("an engine: local, ray or ray:HOST:PORT, the address of Ray's head") from None


EngineText = Annotated[str, PlainValidator(_engine)]
