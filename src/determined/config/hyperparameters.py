"""The search space of hyperparameters: its ranges as typed values, and random sampling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from determined.config.metric_values import number
from determined.config.random_stream import RandomStream
from determined.errors import InvalidConfigurationException

KINDS = ("const", "int", "double", "log", "loguniform", "categorical")


def sample_hyperparameters(space: dict[str, Any], stream: RandomStream) -> dict[str, Any]:
    """Return a random set of hyperparameters: constants unchanged, ranges sampled, nested maps likewise.

    Names are processed in sorted order at every level, so that the same seed gives the same values for every order in
    which the space was written.
    """
    return {name: _sample(value, where, stream) for name, value, where in _items(space, "hyperparameters")}


def _sample(value: Any, where: str, stream: RandomStream) -> Any:
    """Return a value for one entry of the space."""
    if not isinstance(value, dict):
        return value
    if "type" not in value:
        return {name: _sample(inner, below, stream) for name, inner, below in _items(value, where)}
    return draw(leaf(value, where), stream)


def _items(space: Any, where: str, *, as_written: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and dotted path of each entry of a map, sorted by name unless `as_written`."""
    if not isinstance(space, dict):
        raise InvalidConfigurationException(message=f"{where}: expected a map, got {space!r}")
    # By text, because the names of a map may be of different types.
    for name in space if as_written else sorted(space, key=str):
        yield name, space[name], f"{where}.{name}"


@dataclass(frozen=True)
class Const:
    """A constant."""

    value: Any


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: list[Any]


@dataclass(frozen=True)
class IntegerRange:
    """An integer range, both ends included."""

    low: int
    high: int
    count: int | None


@dataclass(frozen=True)
class RealRange:
    """A range of real numbers."""

    low: float
    high: float
    count: int | None


@dataclass(frozen=True)
class LogRange:
    """A range on a logarithmic scale: `base` to an exponent between `low` and `high`."""

    base: float
    low: float
    high: float
    count: int | None
    bounds_are_values: bool = False  # the configuration gives the bounds as values, not as exponents

    def value(self, exponent: float) -> float:
        """Return the base to the power of the exponent."""
        return float(self.base**exponent)

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest value."""
        first, second = self.value(self.low), self.value(self.high)
        return min(first, second), max(first, second)


Leaf = Const | Choice | IntegerRange | RealRange | LogRange


def is_fixed(found: Leaf) -> bool:
    """Return whether a hyperparameter has only one possible value, so that no search varies it."""
    return isinstance(found, Const) or (isinstance(found, Choice) and len(found.values) == 1)


def leaf(value: Any, where: str) -> Leaf:
    """Return the typed form of one entry of a space. Anything but a map with a `type` is a constant."""
    if not isinstance(value, dict) or "type" not in value:
        return Const(value)
    kind = value["type"]
    if kind == "const":
        return Const(_field(value, "val", where))
    if kind == "categorical":
        choices = _field(value, "vals", where)
        if not isinstance(choices, list) or not choices:
            raise InvalidConfigurationException(message=f"{where}.vals: expected a list of values, got {choices!r}")
        return Choice(choices)
    if kind == "int":
        low, high = _bounds(value, where, whole=True)
        return IntegerRange(int(low), int(high), _count(value, where))
    if kind == "double":
        return RealRange(*_bounds(value, where), _count(value, where))
    if kind == "log":
        base = _field(value, "base", where)
        if number(base) is None or base <= 0:
            raise InvalidConfigurationException(message=f"{where}.base: expected a number above 0, got {base!r}")
        return LogRange(base, *_bounds(value, where), _count(value, where))
    if kind == "loguniform":
        low, high = _bounds(value, where, names=("min", "max"))
        if low <= 0:
            raise InvalidConfigurationException(message=f"{where}.min: expected a number above 0, got {low!r}")
        # Base 10 and exponents, so that sampling and grids treat both spellings alike.
        return LogRange(10.0, math.log10(low), math.log10(high), _count(value, where), bounds_are_values=True)
    raise InvalidConfigurationException(message=f"{where}.type: expected {', '.join(KINDS)}, got {kind!r}")


def leaves(
    space: Any, where: str = "hyperparameters", *, as_written: bool = False
) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Yield every leaf of a space with its path, sorted at every level unless `as_written`.

    An empty map is a constant. Searchers need the sorted order, see `sample_hyperparameters`; users read their own.
    """
    for name, value, below in _items(space, where, as_written=as_written):
        if isinstance(value, dict) and value and "type" not in value:
            yield from (((name, *path), found) for path, found in leaves(value, below, as_written=as_written))
        else:
            yield (name,), leaf(value, below)


def nest(values: Sequence[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """Return paths and their values as a nested map."""
    result: dict[str, Any] = {}
    for path, value in values:
        inner = result
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return result


def draw(found: Leaf, stream: RandomStream) -> Any:
    """Return a random value of a leaf."""
    if isinstance(found, Const):
        return found.value
    if isinstance(found, Choice):
        return found.values[stream.integer(len(found.values) - 1)]
    if isinstance(found, IntegerRange):
        return found.low + stream.integer(found.high - found.low)
    drawn = found.low + (found.high - found.low) * stream.unit()
    return found.value(drawn) if isinstance(found, LogRange) else drawn


def _bounds(
    value: dict[str, Any], where: str, *, whole: bool = False, names: tuple[str, str] = ("minval", "maxval")
) -> tuple[float, float]:
    """Return the validated bounds of a range."""
    low, high = (_field(value, name, where) for name in names)
    for name, bound in zip(names, (low, high), strict=True):
        if number(bound) is None or (whole and not isinstance(bound, int)):
            expected = "a whole number" if whole else "a number"
            raise InvalidConfigurationException(message=f"{where}.{name}: expected {expected}, got {bound!r}")
    if not low < high:
        raise InvalidConfigurationException(
            message=f"{where}: {names[0]} must be below {names[1]}, got {names[0]} {low!r} and {names[1]} {high!r}"
        )
    return low, high


def _count(value: dict[str, Any], where: str) -> int | None:
    """Return the number of grid points of a range; None if it has none."""
    count = value.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise InvalidConfigurationException(message=f"{where}.count: expected a whole number from 1 on, got {count!r}")
    return count


def _field(value: dict[str, Any], name: str, where: str) -> Any:
    """Return a field of a range; raise an error that names the hyperparameter if it is missing."""
    # Null is the value of a constant, and a missing field everywhere else.
    if value.get(name) is None and not (name == "val" and "val" in value):
        raise InvalidConfigurationException(message=f"{where}: a hyperparameter of type {value['type']} needs {name}")
    return value[name]
