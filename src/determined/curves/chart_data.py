"""The content of a chart as plain data: the answer to `/api/curves`, also in exported views and in notebooks.

numpy is imported when curves are converted: the server of the page needs the types alone when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from typing_extensions import TypedDict

from determined.config.metric_values import NotFinite
from determined.store.states import TRIAL_FAILED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from determined.curves.thin import Drawing, DrawnCurve

Axis = Literal["batches", "epochs", "time"]
AXES: tuple[Axis, ...] = ("batches", "epochs", "time")

_LARGEST_SINGLE = 1e38  # beyond it single precision has infinities
_SMALLEST_SINGLE = 1.2e-38  # below it single precision has few digits, then none
_HEIGHT = 10_000  # a chart has fewer pixels
_MOST_NAMED = 3  # trials that cannot be read, each with the reason


class CurveMark(TypedDict):
    """Where a curve has values that cannot be drawn, and how many."""

    x: float
    kind: NotFinite
    count: int


class CurvePoint(TypedDict):
    """A point of a curve."""

    x: float
    y: float


class Curve(TypedDict):
    """A curve of one trial: for each x of the answer the smallest and the largest value there, null where it has none.

    Of `points` reported values `drawn` are in the answer. `first` and `last` are the first and the last finite point of
    the whole curve, also if a part of it is drawn. `started` is the time at which the axis of time begins.
    `attempt` is null, except for the points that this attempt reported and a later one repeats.
    """

    trial: int
    attempt: int | None
    started: float | None
    points: int
    drawn: int
    low: list[float | None]
    high: list[float | None]
    marks: list[CurveMark]
    first: CurvePoint | None
    last: CurvePoint | None
    failed: bool


class AttemptPlace(TypedDict):
    """Where an attempt begins on the axis."""

    number: int
    x: float


Curves = TypedDict(
    "Curves",
    {
        "version": str,
        "axis": Axis,
        "from": float | None,
        "to": float | None,
        "x": list[float],
        "curves": list[Curve],
        "attempts": list[AttemptPlace],
        "note": str | None,
    },
)


class DrawnTrial(NamedTuple):
    """A trial whose curve is drawn. `started` is the beginning of the axis of time.

    `state` and `started` are None for a trial that does not exist. With `attempt`, the curve has only the points that
    this attempt reported and a later one repeats.
    """

    id: int
    state: str | None
    started: float | None
    attempt: int | None = None


def curves_data(
    drawing: Drawing,
    trials: Sequence[DrawnTrial],
    axis: Axis,
    *,
    version: str,
    low: float | None = None,
    high: float | None = None,
    note: str | None = None,
    attempts: Mapping[int, float] | None = None,
) -> Curves:
    """Return a drawing of the curves of trials as the plain data of a chart.

    `version` is the version of the store that was read, `low` and `high` are the drawn range. `attempts` are the places
    at which the attempts of a single trial begin; the first attempt is left out. Trials that cannot be drawn are named
    after `note`. Lists of numbers are arrays, in which NaN means that there is no value.
    """
    return {
        "version": version,
        "axis": axis,
        "from": low,
        "to": high,
        "x": _sent(drawing.x),
        "attempts": [{"number": number, "x": x} for number, x in (attempts or {}).items() if number > 1],
        "curves": [_curve(*pair) for pair in zip(trials, drawing.curves, strict=True)],
        "note": "; ".join([*([] if note is None else [note]), *_missing(drawing.damaged)]) or None,
    }


def _missing(damaged: Mapping[int, str]) -> list[str]:
    """Return notes about trials that are not drawn because their reports are damaged: the first few, and a count."""
    named = [f"trial {number} is missing: {reason}" for number, reason in list(damaged.items())[:_MOST_NAMED]]
    more = len(damaged) - len(named)
    return [*named, *([f"{more} more are damaged"] if more else [])]


def _curve(trial: DrawnTrial, curve: DrawnCurve) -> Curve:
    """Return the data of one curve of a chart."""
    low = _single(curve.low)
    return {
        "trial": trial.id,
        "attempt": trial.attempt,
        "started": trial.started,
        "points": curve.points,
        "drawn": curve.drawn,
        "low": low,
        "high": low if curve.high is curve.low else _single(curve.high),  # the same if all points are drawn
        "marks": [{"x": mark.x, "kind": mark.kind, "count": mark.count} for mark in curve.marks],
        "first": _point(curve.first),
        "last": _point(curve.last),
        "failed": trial.attempt is None and trial.state in TRIAL_FAILED,
    }


def _point(place: tuple[float, float] | None) -> CurvePoint | None:
    return None if place is None else {"x": place[0], "y": place[1]}


def _single(values: NDArray[np.float64]) -> Any:
    """Return values in single precision, which halves the answer; in double precision if a chart would differ."""
    import numpy as np

    finite = values[np.isfinite(values)]
    sizes = np.abs(finite[finite != 0])
    if len(sizes) == 0:
        return _sent(values.astype(np.float32))
    if sizes.min() > _SMALLEST_SINGLE and sizes.max() < _LARGEST_SINGLE:
        single = values.astype(np.float32)
        if np.nanmax(np.abs(single - values)) * _HEIGHT <= np.ptp(finite):
            return _sent(single)
    return _sent(values)


def _sent(values: NDArray[Any]) -> Any:
    """Return an array that can be encoded as a JSON list, in which NaN becomes null."""
    import numpy as np

    return np.ascontiguousarray(values)
