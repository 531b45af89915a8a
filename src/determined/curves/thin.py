"""Choose what a chart draws of many points: all of them where they fit, else the extremes of buckets on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from determined.curves.levels import Floats, Level, build_level, coarsened, fitting_exponent

MOST_DRAWN = 1000  # more points than a chart has pixels

NotFinite = Literal["nan", "inf", "-inf"]


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
    """A curve of a drawing: a value for each x of the drawing, NaN where it has none."""

    values: Floats
    marks: list[Mark]
    points: int  # number of reported values, those that are not finite included
    drawn: int  # number of finite values in `values`


@dataclass(frozen=True)
class Drawing:
    """Curves with a common x axis. `width` is the width of its buckets; None if every point is drawn."""

    x: Floats
    curves: list[DrawnCurve]
    width: float | None


def draw(curves: Sequence[Points | Level], most: int = MOST_DRAWN) -> Drawing:
    """Return the drawing of curves with at most `most` positions on the x axis.

    Curves of which only a level is known are drawn at that level or a coarser one.
    """
    exact = [curve for curve in curves if isinstance(curve, Points)]
    if len(exact) == len(curves) and all(np.all(curve.x[1:] > curve.x[:-1]) for curve in exact):
        x = _union([curve.x for curve in exact])
        if len(x) <= most:
            return Drawing(x, [_exact(curve, x) for curve in exact], None)
    exponent = _common_exponent(curves, max(1, most // 2))
    levels = [
        build_level(curve.x, curve.values, exponent) if isinstance(curve, Points) else coarsened(curve, exponent)
        for curve in curves
    ]
    buckets = _union([level.buckets for level in levels])
    width = float(np.ldexp(1.0, exponent))
    # The two extremes of a bucket are drawn at a quarter and at three quarters of it, in the order of their occurrence.
    # Their own positions would differ between curves, and a chart of 100 curves would have 100 times as many.
    x = np.empty(2 * len(buckets))
    x[0::2], x[1::2] = (buckets + 0.25) * width, (buckets + 0.75) * width
    return Drawing(x, [_bucketed(level, buckets, width) for level in levels], width)


def _union(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.unique(np.concatenate(arrays)) if arrays else np.empty(0)


def _common_exponent(curves: Sequence[Points | Level], buckets: int) -> int:
    """Return the exponent of the narrowest buckets that fit into the chart and that every curve has."""
    lows, highs, exponents = [], [], []
    for curve in curves:
        if isinstance(curve, Level):
            exponents.append(curve.exponent)
            if len(curve.buckets):
                lows.append(float(curve.buckets[0]) * curve.width)
                highs.append(float(curve.buckets[-1]) * curve.width)
        elif len(curve.x):
            lows.append(float(curve.x.min()))
            highs.append(float(curve.x.max()))
    if not lows:
        return max(exponents, default=0)
    return max([fitting_exponent(min(lows), max(highs), buckets), *exponents])


def _exact(curve: Points, x: Floats) -> DrawnCurve:
    """Return a curve with all of its points."""
    values = np.full(len(x), np.nan)
    finite = np.isfinite(curve.values)
    values[np.searchsorted(x, curve.x)] = np.where(finite, curve.values, np.nan)
    marks = [
        Mark(float(at), "nan" if np.isnan(value) else "inf" if value > 0 else "-inf", 1)
        for at, value in zip(curve.x[~finite], curve.values[~finite], strict=True)
    ]
    return DrawnCurve(values, marks, len(curve.values), int(finite.sum()))


def _bucketed(level: Level, buckets: NDArray[Any], width: float) -> DrawnCurve:
    """Return a curve with the extremes of its buckets."""
    values = np.full(2 * len(buckets), np.nan)
    places = 2 * np.searchsorted(buckets, level.buckets)
    values[places] = np.where(level.low_first, level.low, level.high)
    values[places + 1] = np.where(level.low_first, level.high, level.low)
    kinds: list[tuple[NotFinite, NDArray[Any]]] = [
        ("nan", level.nans),
        ("inf", level.positive_infinities),
        ("-inf", level.negative_infinities),
    ]
    marks = [
        Mark((float(level.buckets[place]) + 0.5) * width, kind, int(counts[place]))
        for kind, counts in kinds
        for place in np.flatnonzero(counts)
    ]
    return DrawnCurve(values, marks, level.points, int(np.isfinite(values).sum()))
