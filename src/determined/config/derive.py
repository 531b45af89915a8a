"""Derives a configuration from another one by merging changes into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from determined.config.blocks.block import KIND_FIELD, TAG
from determined.config.blocks.experiment import ExperimentConfig
from determined.config.length import read_length
from determined.config.reading.aliases import replaceable_blocks, without_replaced
from determined.config.reading.catalog import catalog


def derive(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the changes merged: maps are merged recursively, other values are replaced.

    A changed field also replaces other names of the same quantity: `max_length` replaces `max_steps`. If a block
    changes its kind, for example from a grid to a random search, only settings that the new kind supports are kept. A
    hyperparameter that gets another range is replaced completely.
    """
    derived = dict(config)
    for name, value in changes.items():
        old = config.get(name)
        if name in KIND_FIELD and isinstance(old, dict) and isinstance(value, dict):
            old = _supported_settings(name, old, value.get(KIND_FIELD[name]))
        derived[name] = _merged(old, value, (name,))
    return derived


def _supported_settings(block: str, old: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Return the settings of a block that its new kind supports."""
    if kind is None or kind == old.get(KIND_FIELD[block]):
        return old
    # The tag selects the alternative in the catalog, as in pydantic's paths.
    known = catalog(ExperimentConfig).get((block, f"{TAG}{kind}"), ())
    return {name: value for name, value in old.items() if name in known}


def _merged(old: Any, new: Any, path: tuple[str, ...]) -> Any:
    """Return the new value merged into the old one."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    # In a search space a map is a range if it has a type; elsewhere a length is recognized by its unit.
    are_spaces = path[0] == "hyperparameters"
    if "type" in old and "type" in new if are_spaces else read_length(old) is not None and read_length(new) is not None:
        return new  # a range or a length such as `{batches: 100}`: their fields must not be mixed
    kept = without_replaced(path, old, new) if path in replaceable_blocks() else old
    return {**kept, **{name: _merged(old.get(name), value, (*path, name)) for name, value in new.items()}}
