"""The `resources` block: the slots of a trial and of an experiment. Other fields are accepted for clusters."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainValidator

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.engine import EngineText
from determined.config.validators import Count, Flag, PositiveCount, Text

_SIZE = re.compile(r"\d+(\.\d+)?\s*([kmgtp](i?b)?|b)?", re.IGNORECASE)
_SIZE_WITHOUT_B = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp])i", re.IGNORECASE)
_DEVICE = re.compile(r"/[^:]*:/[^:]*(:[rwm]{1,3})?")

_DEVICE_NEEDS = {"host_path", "container_path"}


def _size(value: Any) -> int | str:
    """Return a size if it is a number of bytes or has a unit: `b`, `g`, `gb` or `GiB`, but not `gi`.

    Raise otherwise.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and _SIZE.fullmatch(value.strip()):
        return value
    # `1Gi`, the form of Kubernetes, is not accepted; the hint shows the form that is.
    without_b = _SIZE_WITHOUT_B.fullmatch(value.strip()) if isinstance(value, str) else None
    hint = f"write {without_b.group(1)} {without_b.group(2).upper()}iB" if without_b else ""
    raise validators.refusal("a number of bytes, or a size such as 1.5G or 128 MiB", hint)


def _device(value: Any) -> str | dict[str, Any]:
    """Return a device if it is `host:container[:mode]` or the same as a map. Raise otherwise."""
    if isinstance(value, str) and _DEVICE.fullmatch(value):
        return value
    names = set(value) if isinstance(value, dict) else set()
    if _DEVICE_NEEDS <= names <= {*_DEVICE_NEEDS, "mode"} and all(isinstance(part, str) for part in value.values()):
        return dict(value)
    raise validators.refusal("a device such as /dev/fuse:/dev/fuse:rwm")


Size = Annotated[int | str, PlainValidator(_size)]
Device = Annotated[str | dict[str, Any], PlainValidator(_device)]


class Resources(Block):
    """The `resources` block: `slots_per_trial` processes for each trial, at most `max_slots` over all trials."""

    slots_per_trial: Count = 1
    max_slots: PositiveCount | None = None
    is_single_node: Flag | None = None
    priority: Annotated[int, validators.integer(1, 99)] | None = None
    weight: Annotated[float, validators.number(0)] | None = None
    resource_pool: Text | None = None
    shm_size: Size | None = None
    devices: tuple[Device, ...] | None = None
    native_parallel: Flag | None = None
    agent_label: Text | None = None
    slots: Count | None = None
    engine: EngineText | None = None
    node_timeout: Annotated[float, validators.number(5)] | None = None
