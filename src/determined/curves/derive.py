"""Derive the curves of a trial from its columns: exact where they are short, a level of detail where they are long."""

from __future__ import annotations

import numpy as np

from determined.curves.chart_data import Axis
from determined.curves.levels import Floats, Level, build_level, coarsened, fitting_exponent, joined
from determined.curves.read import Column, Key
from determined.curves.thin import Points

_MOST_POINTS = 1000  # a longer curve is kept as a level
_BUCKETS = 1024  # at most, of a level; at least half as many, because widths are powers of two
EPOCHS = ("epochs", "epoch")  # metrics that give the epoch of a report, as in Determined

Curve = Points | Level

NOTHING = Points(np.empty(0), np.empty(0))


def curves(columns: dict[Key, Column], axis: Axis, started: float) -> dict[Key, Points]:
    """Return all points of each metric on an axis. Reports without a place on the axis are left out.

    `started` is the beginning of the time axis, which has seconds.
    """
    found = {}
    for key, each in columns.items():
        column = each.numbers()
        if axis == "batches":
            found[key] = Points(column.steps.astype(np.float64), column.values)
        elif axis == "time":
            found[key] = Points(column.times - started, column.values)
        else:
            found[key] = _over_epochs(column, _epochs(columns, key[0]))
    return found


def extended(curve: Curve, more: Points) -> Curve:
    """Return a curve with the points that were reported since: all points if they are few, else a level."""
    if len(more.x) == 0:
        return curve
    if isinstance(curve, Points):
        both = Points(np.concatenate([curve.x, more.x]), np.concatenate([curve.values, more.values]))
        return both if len(both.x) <= _MOST_POINTS else _level(both)
    level = joined(curve, build_level(more.x, more.values, curve.exponent))
    return coarsened(level, max(level.exponent, _exponent(level)))


def _level(curve: Points) -> Level:
    """Return a curve in buckets that are as narrow as the number of buckets allows."""
    return build_level(curve.x, curve.values, fitting_exponent(float(curve.x.min()), float(curve.x.max()), _BUCKETS))


def _exponent(level: Level) -> int:
    """Return the exponent with which a level has at most the wanted number of buckets."""
    low, high = float(level.buckets[0]) * level.width, float(level.buckets[-1]) * level.width
    return fitting_exponent(low, high, _BUCKETS)


def _epochs(columns: dict[Key, Column], group: str) -> Column | None:
    """Return the metric of a group that counts epochs, or None if the group does not report one."""
    return next((columns[group, name].numbers() for name in EPOCHS if (group, name) in columns), None)


def _over_epochs(column: Column, epochs: Column | None) -> Points:
    """Return the points of a metric at the epochs that the same reports give."""
    if epochs is None:
        return NOTHING
    _, own, others = np.intersect1d(column.steps, epochs.steps, assume_unique=True, return_indices=True)
    x: Floats = epochs.values[others]
    finite = np.isfinite(x)
    return Points(x[finite], column.values[own][finite])
