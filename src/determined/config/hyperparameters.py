"""Draw one set of hyperparameters from a search space at random."""

from __future__ import annotations

import random
from typing import Any

from determined.errors import InvalidConfigurationException


def sample_hyperparameters(space: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A value for every name: constants as they are, ranges drawn, nested maps likewise."""
    if not isinstance(space, dict):
        raise InvalidConfigurationException(message=f"hyperparameters: expected a map, got {space!r}")
    return {name: _sample(value, f"hyperparameters.{name}", rng) for name, value in space.items()}


def _sample(value: Any, where: str, rng: random.Random) -> Any:
    if not isinstance(value, dict):
        return value
    if "type" not in value:
        return {name: _sample(inner, f"{where}.{name}", rng) for name, inner in value.items()}
    kind = value["type"]
    if kind == "const":
        return _field(value, "val", where)
    if kind == "categorical":
        choices = _field(value, "vals", where)
        if not isinstance(choices, list) or not choices:
            raise InvalidConfigurationException(message=f"{where}.vals: expected a list of values, got {choices!r}")
        return rng.choice(choices)
    if kind == "int":
        low, high = _bounds(value, where, whole=True)
        return rng.randint(int(low), int(high))
    if kind == "double":
        low, high = _bounds(value, where)
        return rng.uniform(low, high)
    if kind == "log":
        base = _field(value, "base", where)
        if not _is_number(base) or base <= 0:
            raise InvalidConfigurationException(message=f"{where}.base: expected a number above 0, got {base!r}")
        low, high = _bounds(value, where)  # exponents
        return base ** rng.uniform(low, high)
    raise InvalidConfigurationException(
        message=f"{where}.type: expected const, int, double, log or categorical, got {kind!r}"
    )


def _bounds(value: dict[str, Any], where: str, *, whole: bool = False) -> tuple[float, float]:
    low, high = _field(value, "minval", where), _field(value, "maxval", where)
    for name, bound in (("minval", low), ("maxval", high)):
        if not _is_number(bound) or (whole and not isinstance(bound, int)):
            expected = "a whole number" if whole else "a number"
            raise InvalidConfigurationException(message=f"{where}.{name}: expected {expected}, got {bound!r}")
    if not low < high:
        raise InvalidConfigurationException(
            message=f"{where}: minval must be below maxval, got minval {low!r} and maxval {high!r}"
        )
    return low, high


def _field(value: dict[str, Any], name: str, where: str) -> Any:
    if name not in value:
        raise InvalidConfigurationException(message=f"{where}: a hyperparameter of type {value['type']} needs {name}")
    return value[name]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
