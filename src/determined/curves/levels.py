"""Levels of detail: a curve in buckets whose width is a power of two, with the smallest and largest value of each.

Buckets of one width have the same borders in every curve, and two neighbours of one width are exactly one bucket of the
next. So a level can be computed from a finer one, levels of different curves can share a chart, and no spike is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# The widths are 2**-40 to 2**62: a microsecond is wider than the former, and every 63-bit step fits into the latter.
_NARROWEST, _WIDEST = -40, 62
_FARTHEST = 2.0**62  # the largest number of a bucket


@dataclass(frozen=True)
class Level:
    """A curve in buckets of the width `2 ** exponent`: one entry for each bucket that has values, in order.

    `low` and `high` are the extremes of the finite values, NaN where a bucket has none. Values that are not finite are
    counted by kind, so that a chart can mark them. The first and the last finite point are known exactly; they are NaN
    if there is none.
    """

    exponent: int
    buckets: Integers
    low: Floats
    high: Floats
    counts: Integers
    nans: Integers
    positive_infinities: Integers
    negative_infinities: Integers
    first_x: float
    first_value: float
    last_x: float
    last_value: float

    @property
    def width(self) -> float:
        """The width of a bucket."""
        return math.ldexp(1.0, self.exponent)

    @property
    def points(self) -> int:
        """The number of values in all buckets."""
        return int(self.counts.sum())


ARRAYS = ("buckets", "low", "high", "counts", "nans", "positive_infinities", "negative_infinities")


def fitting_exponent(low: float, high: float, buckets: int) -> int:
    """Return the smallest exponent with which at most this number of buckets cover the range from `low` to `high`."""
    for exponent in range(_first_guess(high - low, buckets), _WIDEST):
        width = math.ldexp(1.0, exponent)
        if math.floor(high / width) - math.floor(low / width) < buckets:
            return exponent
    return _WIDEST


def _first_guess(span: float, buckets: int) -> int:
    """Return an exponent at which to begin the search for the fitting one, which is not smaller."""
    width = span / buckets
    if span <= 0:
        return 0
    return max(_NARROWEST, min(_WIDEST, math.frexp(width)[1] - 2)) if width > 0 else _NARROWEST


def build_level(x: Floats, values: Floats, exponent: int) -> Level:
    """Return the level of the points (x, value), which are in the order of their reports; x may decrease."""
    finite = np.isfinite(values)
    buckets = np.floor(x / math.ldexp(1.0, exponent)).astype(np.int64)
    if len(x) and finite.all() and _is_sorted(buckets):
        return _finite_level(exponent, buckets, x, values)
    ends = np.flatnonzero(finite)[[0, -1]] if finite.any() else None
    numbers = np.where(finite, values, np.nan)
    level = Level(
        exponent,
        buckets,
        numbers,
        numbers,
        np.ones(len(values), dtype=np.int64),
        np.isnan(values).astype(np.int64),
        np.isposinf(values).astype(np.int64),
        np.isneginf(values).astype(np.int64),
        *([math.nan] * 4 if ends is None else (float(array[end]) for end in ends for array in (x, values))),
    )
    return _merged(level)


def _finite_level(exponent: int, buckets: Integers, x: Floats, values: Floats) -> Level:
    """Do the work of `build_level` in a third of the time, for the usual finite values with buckets in order."""
    starts = _starts(buckets)
    none = np.zeros(len(starts), dtype=np.int64)
    return Level(
        exponent,
        buckets[starts],
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        np.diff(starts, append=len(values)),
        none,
        none,
        none,
        float(x[0]),
        float(values[0]),
        float(x[-1]),
        float(values[-1]),
    )


def coarsened(level: Level, exponent: int) -> Level:
    """Return the level with wider buckets; the same as if it had been built from the points."""
    if exponent < level.exponent:
        raise ValueError(f"a level of exponent {level.exponent} has no detail for {exponent}")
    if exponent == level.exponent:
        return level
    buckets = level.buckets >> np.int64(exponent - level.exponent)
    return _merged(replace(level, exponent=exponent, buckets=buckets))


def clipped(level: Level, low: float, high: float) -> Level:
    """Return a level with only the buckets that overlap the range from `low` to `high`."""
    # Places far from the curve are outside of the integers that numpy compares.
    first, last = (math.floor(max(-_FARTHEST, min(place / level.width, _FARTHEST))) for place in (low, high))
    part = slice(*np.searchsorted(level.buckets, [first, last + 1]))
    return _with(level, {name: getattr(level, name)[part] for name in ARRAYS})


def joined(first: Level, second: Level) -> Level:
    """Return the level of the points of two levels; those of `first` were reported earlier."""
    exponent = max(first.exponent, second.exponent)
    one, other = coarsened(first, exponent), coarsened(second, exponent)
    earlier = other if math.isnan(one.first_x) else one
    later = one if math.isnan(other.last_x) else other
    both = _with(later, {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in ARRAYS})
    return _merged(replace(both, first_x=earlier.first_x, first_value=earlier.first_value))


def _merged(level: Level) -> Level:
    """Return a sorted level in which the entries of each bucket are merged into one."""
    if len(level.buckets) == 0:
        return level
    if not _is_sorted(level.buckets):
        order = np.argsort(level.buckets, kind="stable")
        level = _with(level, {name: getattr(level, name)[order] for name in ARRAYS})
    starts = _starts(level.buckets)
    return _with(
        level,
        {
            "buckets": level.buckets[starts],
            "low": np.fmin.reduceat(level.low, starts),
            "high": np.fmax.reduceat(level.high, starts),
            **{name: np.add.reduceat(getattr(level, name), starts) for name in ARRAYS[3:]},
        },
    )


def _is_sorted(buckets: Integers) -> bool:
    return not np.any(buckets[1:] < buckets[:-1])


def _starts(buckets: Integers) -> Integers:
    """Return the index of the first entry of each bucket, in a list of entries that is sorted by buckets."""
    return np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))


def _with(level: Level, arrays: dict[str, Any]) -> Level:
    """Return a copy of a level with the named arrays replaced."""
    return replace(level, **arrays)
