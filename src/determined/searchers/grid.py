"""Enumerates the points of a grid search."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

from determined.config.hyperparameters import Choice, Const, IntegerRange, Leaf, RealRange, leaves, nest
from determined.errors import InvalidConfigurationException


class Grid:
    """The distinct points of a grid as a sequence. The last hyperparameter varies fastest."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._axes = [(path, _distinct(_axis(found, path))) for path, found in leaves(space)]

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self._axes)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        point = []
        for path, values in reversed(self._axes):
            index, position = divmod(index, len(values))
            point.append((path, values[position]))
        return nest(point[::-1])


def _axis(found: Leaf, path: tuple[str, ...]) -> list[Any]:
    """Return the values of one hyperparameter. Raise if it has no `count` although it needs one."""
    if isinstance(found, Const):
        return [found.value]
    if isinstance(found, Choice):
        return found.values
    if found.count is None:
        raise InvalidConfigurationException(
            message=f"hyperparameters.{'.'.join(path)}: a grid search needs count, the number of values to try"
        )
    if isinstance(found, IntegerRange):
        # More points than integers would only give duplicates.
        count = min(found.count, found.high - found.low + 1)
        # Exact, because floats lose digits of large integers and would round some halves the wrong way.
        return [_round(point) for point in _spread(Fraction(found.low), Fraction(found.high), count)]
    if isinstance(found, RealRange):
        return _spread(found.low, found.high, found.count)
    return [found.value(exponent) for exponent in _spread(found.low, found.high, found.count)]


def _spread(low: Any, high: Any, count: int) -> list[Any]:
    """Return evenly spaced values including both ends; a single value is in the middle."""
    if count == 1:
        return [(low + high) / 2]
    return [low + position * (high - low) / (count - 1) for position in range(count)]


def _round(value: Fraction) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(value + Fraction(1, 2)) if value >= 0 else -math.floor(-value + Fraction(1, 2))


def _distinct(values: list[Any]) -> list[Any]:
    """Return the values without duplicates, in order."""
    # Compared as JSON text, because 1, 1.0 and True are equal in Python but not for a trial.
    return list({json.dumps(value, sort_keys=True, default=repr): value for value in reversed(values)}.values())[::-1]
