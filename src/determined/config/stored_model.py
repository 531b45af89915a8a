"""Returns the model of a stored configuration, which was validated when its experiment was created."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_origin

from determined.config.blocks.block import KIND_FIELD, TAG, Block
from determined.config.blocks.experiment import ExperimentConfig
from determined.config.experiment import load_experiment
from determined.config.length import Length, read_length
from determined.config.reading.catalog import blocks_in, parts

M = TypeVar("M", bound=Block)


def stored_model(plain: dict[str, Any]) -> ExperimentConfig:
    """Return the model of a configuration as `ExperimentConfig.plain()` wrote it, without validating it again.

    A configuration that this version would write differently, because an earlier one wrote it, is validated and
    migrated like a file.
    """
    config = _constructed(ExperimentConfig, plain)
    # Compared with what this version would write: any difference means another version, or edited data.
    if config is not None and config.plain() == plain:
        return config
    return load_experiment(plain).config


def _constructed(model: type[M], plain: dict[str, Any]) -> M | None:
    """Return a model with these fields, unvalidated; None if they cannot be the fields of this model."""
    fields = model.model_fields
    required = {name for name, field in fields.items() if field.is_required()}
    if not required <= plain.keys() <= fields.keys():
        return None
    values = {}
    for name, value in plain.items():
        values[name] = _value(_shape(model, name), value)
        # None marks a value of no known kind; null itself is stored as None.
        if values[name] is None and value is not None:
            return None
    # Not validated: these data were when they were stored, and validating takes time at every start of a runner.
    return model.model_construct(**values)


class _Shape:
    """The kinds of values of a field that are not plain data: blocks by the tag of their kind, lengths, tuples."""

    def __init__(self, annotation: Any) -> None:
        self.blocks = {tag[-1] if tag else "": block for tag, block in blocks_in(annotation)}
        found = list(parts(annotation))
        self.is_length = Length in found
        self.is_tuple = any(get_origin(part) is tuple for part in found)


@cache
def _shape(model: type[Block], name: str) -> _Shape:
    return _Shape(model.model_fields[name].annotation)


def _value(shape: _Shape, value: Any) -> Any:
    """Return the value of a field as the model has it; None if it is of no kind that the field can contain."""
    if shape.is_length:
        return read_length(value)
    if shape.is_tuple and isinstance(value, list):
        items = [_value_of_block(shape, item) for item in value]
        return None if any(item is None for item in items) else tuple(items)
    return _value_of_block(shape, value)


def _value_of_block(shape: _Shape, value: Any) -> Any:
    """Return a block for a map if the field contains blocks, otherwise the value itself."""
    if not isinstance(value, dict) or not shape.blocks:
        return value
    if len(shape.blocks) == 1:
        (model,) = shape.blocks.values()
    else:
        # The field that selects the alternative has another name in each block.
        kinds = [TAG + value[field] for field in KIND_FIELD.values() if isinstance(value.get(field), str)]
        known = [shape.blocks[kind] for kind in kinds if kind in shape.blocks]
        if len(known) != 1:
            return None
        (model,) = known
    return _constructed(model, value)
