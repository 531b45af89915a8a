"""Validation of the `hyperparameters` block: constants, ranges and choices, in groups of any depth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, ValidationError

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.plain_data import Path, dotted
from determined.config.reading.error_messages import MOST_MISTAKES, from_validation, nearest_kind, unknown_kind
from determined.config.validators import PositiveCount
from determined.errors import Mistake

Number = Annotated[float, validators.number()]
PositiveNumber = Annotated[float, validators.number(above=0)]
# Up to here a float represents every integer, and JSON parsers of other languages read it exactly.
WholeNumber = Annotated[int, validators.integer(-(2**53), 2**53, expected="a whole number")]


def _values(value: Any) -> list[Any]:
    """Return the values of a categorical hyperparameter; raise an error for anything but a filled list."""
    if not isinstance(value, list) or not value:
        raise validators.refusal("a list of at least one value")
    return value


class Const(Block):
    """A constant."""

    type: Literal["const"]
    val: Any


class Int(Block):
    """An integer range, both ends included."""

    type: Literal["int"]
    minval: WholeNumber
    maxval: WholeNumber
    count: PositiveCount | None = None


class Double(Block):
    """A range of real numbers."""

    type: Literal["double"]
    minval: Number
    maxval: Number
    count: PositiveCount | None = None


class Log(Block):
    """A range on a logarithmic scale: `base` to an exponent between `minval` and `maxval`."""

    type: Literal["log"]
    base: PositiveNumber
    minval: Number
    maxval: Number
    count: PositiveCount | None = None


class LogUniform(Block):
    """A range on a logarithmic scale, given by the values `min` and `max`. Determined does not have this type."""

    type: Literal["loguniform"]
    min: PositiveNumber
    max: PositiveNumber
    count: PositiveCount | None = None


class Categorical(Block):
    """One of several values."""

    type: Literal["categorical"]
    vals: Annotated[list[Any], PlainValidator(_values)]


_KINDS: dict[str, type[Block]] = {
    "const": Const,
    "int": Int,
    "double": Double,
    "log": Log,
    "loguniform": LogUniform,
    "categorical": Categorical,
}
_RANGES = ("int", "double", "log", "loguniform")
# The names of the bounds of a range if they are not minval and maxval.
_ENDS = {"loguniform": ("min", "max")}


def check_space(space: Any) -> tuple[Any, list[Mistake]]:
    """Return the space with its ranges validated, as plain data, and all mistakes in it."""
    if not isinstance(space, dict):
        return space, []  # reported by the validation of the model
    mistakes: list[Mistake] = []
    return _group(space, ("hyperparameters",), mistakes), mistakes


def leaves(space: Any, path: Path = ("hyperparameters",)) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every hyperparameter that has a `type`, at any depth, with its path."""
    if not isinstance(space, dict):
        return
    for name, value in space.items():
        if not isinstance(value, dict):
            continue
        if value.get("type") is None:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def is_range(leaf: dict[str, Any]) -> bool:
    """Return whether a hyperparameter is a range of numbers, for which a grid search needs a count."""
    return leaf.get("type") in _RANGES


def _group(group: dict[str, Any], path: Path, mistakes: list[Mistake]) -> dict[str, Any]:
    """Return a group of hyperparameters with its ranges validated."""
    checked: dict[str, Any] = {}
    for name, value in group.items():
        # Searching for suggestions takes time, so the rest is not checked after too many mistakes.
        if not isinstance(value, dict) or len(mistakes) > MOST_MISTAKES:
            checked[name] = value
        elif value.get("type") is None:
            inner = {key: content for key, content in value.items() if key != "type"}
            checked[name] = _group(inner, (*path, name), mistakes)
        else:
            checked[name] = _leaf(value, (*path, name), mistakes)
    return checked


def _leaf(value: dict[str, Any], path: Path, mistakes: list[Mistake]) -> Any:
    """Return one validated hyperparameter as plain data."""
    kind = value["type"]
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        unknown = unknown_kind((*path, "type"), kind, list(_KINDS))
        hint = unknown.hint or "a group of hyperparameters cannot have one that is called type"
        mistakes.append(Mistake(unknown.path, None, unknown.message, hint))
        near = nearest_kind(kind, list(_KINDS))
        if near is None:
            return value
        kind, value = near, {**value, "type": near}
        model = _KINDS[kind]
    # A null field counts as not set, except that null is a valid constant.
    given = {name: content for name, content in value.items() if content is not None or name == "val"}
    try:
        leaf = model.model_validate(given)
    except ValidationError as error:
        mistakes += from_validation(error, model, path)
        return value
    problem = _range_problem(leaf, kind)
    if problem is not None:
        name, message = problem
        mistakes.append(Mistake(dotted((*path, name)), None, message))
    # `plain` leaves out None, which is a valid value of a constant.
    return {"type": "const", "val": given["val"]} if kind == "const" else leaf.plain()


def _range_problem(leaf: Block, kind: str) -> tuple[str, str] | None:
    """Return the field and the message if the bounds of a range are invalid, else None."""
    if kind not in _RANGES:
        return None
    low_name, high_name = _ENDS.get(kind, ("minval", "maxval"))
    low, high = getattr(leaf, low_name), getattr(leaf, high_name)
    if not low < high:
        return low_name, f"expected a number below {high_name}, got {low_name} {low} and {high_name} {high}"
    # Sampling computes the width of the range, which would overflow.
    if math.isinf(float(high) - float(low)):
        return high_name, f"the range from {low} to {high} is too wide for a number"
    if isinstance(leaf, Log) and not _is_power(leaf.base, low, high):
        return high_name, f"{leaf.base} to the power of {low} or {high} is too large: the bounds are exponents"
    return None


def _is_power(base: float, low: float, high: float) -> bool:
    """Return whether the powers at both ends of a range are finite."""
    try:
        return all(math.isfinite(float(base) ** end) for end in (low, high))
    except OverflowError:
        return False
