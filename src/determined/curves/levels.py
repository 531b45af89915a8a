"""Levels of detail: a curve in buckets whose width is a power of two, with the smallest and largest value of each.

Buckets of one width have the same borders in every curve, and two neighbours of one width are exactly one bucket of the
next. So a level can be computed from a finer one, levels of different curves can share a chart, and no spike is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# The widths are 2**-40 to 2**62: a microsecond is wider than the former, and every 63-bit step fits into the latter.
_NARROWEST, _WIDEST = -40, 62


@dataclass(frozen=True)
class Level:
    """A curve in buckets of the width `2 ** exponent`: one entry for each bucket that has values, in order.

    `low` and `high` are the extremes of the finite values, NaN where a bucket has none; `low_first` says which
    one has the smaller x. Values that are not finite are counted by kind, so that a chart can mark them.
    """

    exponent: int
    buckets: Integers
    low: Floats
    high: Floats
    low_first: Flags
    counts: Integers
    nans: Integers
    positive_infinities: Integers
    negative_infinities: Integers

    @property
    def width(self) -> float:
        """The width of a bucket."""
        return math.ldexp(1.0, self.exponent)

    @property
    def points(self) -> int:
        """The number of values in all buckets."""
        return int(self.counts.sum())


def fitting_exponent(low: float, high: float, buckets: int) -> int:
    """Return the smallest exponent with which at most so many buckets cover the range from `low` to `high`."""
    for exponent in range(_first_guess(high - low, buckets), _WIDEST):
        width = math.ldexp(1.0, exponent)
        if math.floor(high / width) - math.floor(low / width) < buckets:
            return exponent
    return _WIDEST


def _first_guess(span: float, buckets: int) -> int:
    """Return an exponent that is at most the fitting one."""
    width = span / buckets
    if span <= 0:
        return 0
    return max(_NARROWEST, min(_WIDEST, math.frexp(width)[1] - 2)) if width > 0 else _NARROWEST


def build_level(x: Floats, values: Floats, exponent: int) -> Level:
    """Return the level of the points (x, value), which are sorted by x first if they are not."""
    if np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, values = x[order], values[order]
    finite = np.isfinite(values)
    return _grouped(
        exponent,
        np.floor(x / math.ldexp(1.0, exponent)).astype(np.int64),
        np.where(finite, values, np.nan),
        np.where(finite, values, np.nan),
        np.ones(len(values), dtype=np.bool_),
        np.ones(len(values), dtype=np.int64),
        np.isnan(values).astype(np.int64),
        np.isposinf(values).astype(np.int64),
        np.isneginf(values).astype(np.int64),
    )


def coarsened(level: Level, exponent: int) -> Level:
    """Return the level with wider buckets; the same as if it had been built from the points."""
    if exponent < level.exponent:
        raise ValueError(f"a level of exponent {level.exponent} has no detail for {exponent}")
    if exponent == level.exponent:
        return level
    return _grouped(
        exponent,
        level.buckets >> np.int64(exponent - level.exponent),
        level.low,
        level.high,
        level.low_first,
        level.counts,
        level.nans,
        level.positive_infinities,
        level.negative_infinities,
    )


def joined(first: Level, second: Level) -> Level:
    """Return the level of the points of both.

    Where their ranges overlap, the points of `first` count as the earlier ones in `low_first`.
    """
    exponent = max(first.exponent, second.exponent)
    one, other = coarsened(first, exponent), coarsened(second, exponent)
    return _grouped(
        exponent,
        np.concatenate([one.buckets, other.buckets]),
        np.concatenate([one.low, other.low]),
        np.concatenate([one.high, other.high]),
        np.concatenate([one.low_first, other.low_first]),
        np.concatenate([one.counts, other.counts]),
        np.concatenate([one.nans, other.nans]),
        np.concatenate([one.positive_infinities, other.positive_infinities]),
        np.concatenate([one.negative_infinities, other.negative_infinities]),
    )


def _grouped(
    exponent: int,
    buckets: Integers,
    low: Floats,
    high: Floats,
    low_first: Flags,
    counts: Integers,
    nans: Integers,
    positive_infinities: Integers,
    negative_infinities: Integers,
) -> Level:
    """Merge the entries of each bucket, which are in the order of x."""
    if len(buckets) == 0:
        return Level(exponent, buckets, low, high, low_first, counts, nans, positive_infinities, negative_infinities)
    if np.any(buckets[1:] < buckets[:-1]):
        order = np.argsort(buckets, kind="stable")  # stable: the order within a bucket decides `low_first`
        buckets, low, high, low_first = buckets[order], low[order], high[order], low_first[order]
        counts, nans = counts[order], nans[order]
        positive_infinities, negative_infinities = positive_infinities[order], negative_infinities[order]
    starts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(buckets)]]))
    lowest, highest = np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)
    # Where each extreme occurred first. Two extremes of one entry are in the order that the entry says.
    places = np.arange(len(buckets))
    first_low = np.minimum.reduceat(np.where(low == np.repeat(lowest, sizes), places, len(buckets)), starts)
    first_high = np.minimum.reduceat(np.where(high == np.repeat(highest, sizes), places, len(buckets)), starts)
    within = low_first[np.minimum(first_low, len(buckets) - 1)]
    return Level(
        exponent,
        buckets[starts],
        lowest,
        highest,
        np.where(np.isnan(lowest), True, np.where(first_low == first_high, within, first_low < first_high)),
        np.add.reduceat(counts, starts),
        np.add.reduceat(nans, starts),
        np.add.reduceat(positive_infinities, starts),
        np.add.reduceat(negative_infinities, starts),
    )
