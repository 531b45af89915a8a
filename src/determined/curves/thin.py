"""Choose what a chart draws of many points: all of them where they fit, else the extremes of buckets on one grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from determined.config.metric_values import NotFinite, not_finite
from determined.curves.levels import Floats, Level, build_level, clipped, coarsened, fitting_exponent

MOST_DRAWN = 1000  # more points than a chart has pixels


@dataclass(frozen=True)
class Points:
    """All points of a curve, in the order in which they were reported. Values may be NaN or infinite, x may not."""

    x: Floats
    values: Floats


@dataclass(frozen=True)
class Mark:
    """Where a curve has values that cannot be drawn, and how many."""

    x: float
    kind: NotFinite
    count: int


@dataclass(frozen=True)
class DrawnCurve:
    """A curve of a drawing: the smallest and the largest value at each x of the drawing, NaN where it has none.

    `points` is the number of reported values in the drawn range, those that are not finite included; `drawn` is the
    number of values in `low` and `high`. `first` and `last` are the first and the last finite point of the whole curve.
    """

    low: Floats
    high: Floats
    marks: list[Mark]
    points: int
    drawn: int
    first: tuple[float, float] | None
    last: tuple[float, float] | None


@dataclass(frozen=True)
class Drawing:
    """Curves with a common x axis. `width` is the width of its buckets; None if every point is drawn.

    `damaged` has the trials whose curves are empty because their reports cannot be read, with the reason.
    """

    x: Floats
    curves: list[DrawnCurve]
    width: float | None
    damaged: dict[int, str] = field(default_factory=dict)


def draw(
    curves: Sequence[Points | Level],
    most: int = MOST_DRAWN,
    low: float | None = None,
    high: float | None = None,
    wholes: Sequence[Points | Level] | None = None,
) -> Drawing:
    """Return the drawing of curves, with at most `most` values of each, from `low` to `high` or everything.

    Curves of which only a level is known are drawn at that level or a coarser one. If `curves` are parts of curves that
    were read in more detail, `wholes` are the complete ones.
    """
    ends = [_ends(curve) for curve in (curves if wholes is None else wholes)]
    if low is not None or high is not None:
        curves = [
            _part(curve, -math.inf if low is None else low, math.inf if high is None else high) for curve in curves
        ]
    exact = [curve for curve in curves if isinstance(curve, Points)]
    if len(exact) == len(curves) and all(np.all(curve.x[1:] > curve.x[:-1]) for curve in exact):
        x = _union([curve.x for curve in exact])
        if len(x) <= most:
            return Drawing(x, [_exact(curve, x, *both) for curve, both in zip(exact, ends, strict=True)], None)
    exponent = _common_exponent(curves, max(1, most // 2), low, high)
    levels = [
        build_level(curve.x, curve.values, exponent) if isinstance(curve, Points) else coarsened(curve, exponent)
        for curve in curves
    ]
    buckets = _union([level.buckets for level in levels])
    width = math.ldexp(1.0, exponent)
    # All values of a bucket are drawn at its middle. Their own positions would differ between curves, and a chart of
    # 100 curves would have 100 times as many.
    return Drawing(
        (buckets + 0.5) * width,
        [_bucketed(level, buckets, width, *both) for level, both in zip(levels, ends, strict=True)],
        width,
    )


def wanted_exponent(low: float, high: float, most: int = MOST_DRAWN) -> int:
    """Return the exponent of two that is the bucket width for drawing a range.

    At most `most` values are drawn, two for each bucket.
    """
    return fitting_exponent(low, high, max(1, most // 2))


def _part(curve: Points | Level, low: float, high: float) -> Points | Level:
    """Return the part of a curve between two places, both included."""
    if isinstance(curve, Level):
        first, last = (float(curve.buckets[0]), float(curve.buckets[-1])) if len(curve.buckets) else (0.0, 0.0)
        return clipped(curve, max(low, first * curve.width), min(high, last * curve.width))
    inside = (curve.x >= low) & (curve.x <= high)
    return Points(curve.x[inside], curve.values[inside])


def _ends(curve: Points | Level) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return the first and the last finite point of a curve, None if it has none."""
    if isinstance(curve, Level):
        if math.isnan(curve.last_x):
            return None, None
        return (curve.first_x, curve.first_value), (curve.last_x, curve.last_value)
    finite = np.flatnonzero(np.isfinite(curve.values))
    if len(finite) == 0:
        return None, None
    first, last = ((float(curve.x[place]), float(curve.values[place])) for place in finite[[0, -1]])
    return first, last


def _union(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the sorted values that occur in any of the arrays."""
    return np.unique(np.concatenate(arrays)) if arrays else np.empty(0)


def _common_exponent(curves: Sequence[Points | Level], buckets: int, low: float | None, high: float | None) -> int:
    """Return the exponent of the narrowest buckets that fit into the chart and that every curve has."""
    lows, highs = [] if low is None else [low], [] if high is None else [high]
    exponents = []
    for curve in curves:
        if isinstance(curve, Level):
            exponents.append(curve.exponent)
            if len(curve.buckets):
                lows.append(float(curve.buckets[0]) * curve.width)
                highs.append(float(curve.buckets[-1]) * curve.width)
        elif len(curve.x):
            lows.append(float(curve.x.min()))
            highs.append(float(curve.x.max()))
    if not lows or not highs:
        return max(exponents, default=0)
    start, end = (min(lows) if low is None else low), (max(highs) if high is None else high)
    return max([fitting_exponent(start, max(start, end), buckets), *exponents])


def _exact(curve: Points, x: Floats, first: tuple[float, float] | None, last: tuple[float, float] | None) -> DrawnCurve:
    """Return a curve with all of its points."""
    values = np.full(len(x), np.nan)
    finite = np.isfinite(curve.values)
    values[np.searchsorted(x, curve.x)] = np.where(finite, curve.values, np.nan)
    marks = [
        Mark(float(at), not_finite(value), 1) for at, value in zip(curve.x[~finite], curve.values[~finite], strict=True)
    ]
    return DrawnCurve(values, values, marks, len(curve.values), int(finite.sum()), first, last)


def _bucketed(
    level: Level,
    buckets: NDArray[Any],
    width: float,
    first: tuple[float, float] | None,
    last: tuple[float, float] | None,
) -> DrawnCurve:
    """Return a curve with the extremes of its buckets."""
    low, high = np.full(len(buckets), np.nan), np.full(len(buckets), np.nan)
    places = np.searchsorted(buckets, level.buckets)
    low[places], high[places] = level.low, level.high
    kinds: list[tuple[NotFinite, NDArray[Any]]] = [
        ("NaN", level.nans),
        ("Infinity", level.positive_infinities),
        ("-Infinity", level.negative_infinities),
    ]
    marks = [
        Mark((float(level.buckets[place]) + 0.5) * width, kind, int(counts[place]))
        for kind, counts in kinds
        for place in np.flatnonzero(counts)
    ]
    drawn = int(np.isfinite(level.low).sum() + (level.low < level.high).sum())
    return DrawnCurve(low, high, marks, level.points, drawn, first, last)
