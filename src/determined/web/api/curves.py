"""`/api/curves` and `/api/trials/{id}/profile`: curves of metrics, downsampled so that no spike is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from typing_extensions import TypedDict

from determined.store.states import TRIAL_ENDED
from determined.store.store import Store
from determined.web.answers import Route
from determined.web.api.shapes import Id
from determined.web.identifiers import numbers
from determined.web.state import ServerState, reading, state_of, version
from determined.web.tables import metric_keys
from determined.web.tables.trial_rows import trial_state

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from determined.curves.thin import Drawing, DrawnCurve
    from determined.curves.trials import CurveReader

# numpy is imported by the first chart: the server starts a tenth of a second earlier.

router = APIRouter(route_class=Route)

Axis = Literal["batches", "epochs", "time"]
_MOST_TRIALS = 2000
Place = Annotated[float, Field(ge=-9.2e18, le=9.2e18, allow_inf_nan=False)]
"""A place on an axis; as a step it fits into the 64 bits that a database has."""

_LARGEST_SINGLE = 1e38  # beyond it single precision has infinities
_SMALLEST_SINGLE = 1.2e-38  # below it single precision has few digits, then none
_HEIGHT = 10_000  # a chart has fewer pixels


class CurveMark(TypedDict):
    """Where a curve has values that cannot be drawn, and how many."""

    x: float
    kind: Literal["NaN", "Infinity", "-Infinity"]
    count: int


class CurveEnd(TypedDict):
    """The last point of a curve."""

    x: float
    y: float


class Curve(TypedDict):
    """A curve of one trial: for each x of the answer the smallest and the largest value there, null where it has none.

    Of `points` reported values `drawn` are in the answer. `started` is the time at which the axis of time begins.
    """

    trial: int
    started: float | None
    points: int
    drawn: int
    low: list[float | None]
    high: list[float | None]
    marks: list[CurveMark]
    ended: CurveEnd | None
    failed: bool


Curves = TypedDict(
    "Curves",
    {
        "version": str,
        "axis": Axis,
        "from": float | None,
        "to": float | None,
        "x": list[float],
        "curves": list[Curve],
        "note": str | None,
    },
)


@router.get("/api/curves")
def curves(
    request: Request,
    trials: str,
    key: str,
    axis: Axis = "batches",
    low: Annotated[Place | None, Query(alias="from")] = None,
    high: Annotated[Place | None, Query(alias="to")] = None,
    points: Annotated[int, Query(ge=2, le=10_000)] = 1000,
    archived: bool = False,
) -> Curves:
    """Return the curves of one metric for several trials, on one grid.

    With `from` and `to` only that part, in more detail; with `archived` also the points that a later attempt replaced.
    """
    seen = version(request)
    state = state_of(request)
    known: Curves | None = state.recent_curves.find(seen, request.url.query)
    if known is not None:
        return known
    wanted = numbers(trials, _MOST_TRIALS)
    with reading(request) as store:
        states = {row.id: trial_state(row)[0] for row in store.overview.trials(trial_ids=wanted, latest=False)}
        drawing = _reader(store, state).drawing(
            wanted, metric_keys.split(key), axis, low=low, high=high, most=points, archived=archived
        )
        started = {one.trial_id: one.started for one in store.reports.versions(wanted)}
    rows = [
        _curve(number, curve, states.get(number), started.get(number))
        for number, curve in zip(wanted, drawing.curves, strict=True)
    ]
    found = _answer(seen, axis, low, high, drawing, rows, state.cache.trouble)
    state.recent_curves.keep(seen, request.url.query, found, len(drawing.x) * (2 * len(rows) + 1))
    return found


@router.get("/api/trials/{trial_id}/profile")
def profile(
    request: Request,
    trial_id: Id,
    key: str,
    low: Annotated[Place | None, Query(alias="from")] = None,
    high: Annotated[Place | None, Query(alias="to")] = None,
    points: Annotated[int, Query(ge=2, le=10_000)] = 1000,
) -> Curves:
    """Return the curve of a metric that a trial reported without a step, such as the use of a GPU, over time."""
    seen = version(request)
    state = state_of(request)
    with reading(request) as store:
        trial = store.experiments.trial(trial_id)
        drawing = _reader(store, state).samples(trial_id, metric_keys.split(key), low=low, high=high, most=points)
        started = next((found.started for found in store.reports.versions([trial_id])), None)
    rows = [_curve(trial_id, drawing.curves[0], trial.state, started)]
    return _answer(seen, "time", low, high, drawing, rows, None)


def _reader(store: Store, state: ServerState) -> CurveReader:
    from determined.curves.trials import CurveReader

    return CurveReader(store, state.cache)


def _answer(
    seen: str,
    axis: Axis,
    low: float | None,
    high: float | None,
    drawing: Drawing,
    rows: Sequence[Curve],
    note: str | None,
) -> Curves:
    return {
        "version": seen,
        "axis": axis,
        "from": low,
        "to": high,
        "x": _sent(drawing.x),
        "curves": list(rows),
        "note": note,
    }


def _curve(trial_id: int, curve: DrawnCurve, state: str | None, started: float | None) -> Curve:
    last = curve.last if state in TRIAL_ENDED else None
    return {
        "trial": trial_id,
        "started": started,
        "points": curve.points,
        "drawn": curve.drawn,
        "low": _single(curve.low),
        "high": _single(curve.high),
        "marks": [{"x": mark.x, "kind": mark.kind, "count": mark.count} for mark in curve.marks],
        "ended": None if last is None else {"x": last[0], "y": last[1]},
        "failed": state in ("ERROR", "INVALID_HP"),
    }


def _single(values: NDArray[np.float64]) -> Any:
    """Return values for a chart: in single precision, which halves the answer, unless the chart would show it."""
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
    """Return an array that is sent as a list; NaN becomes null."""
    import numpy as np

    return np.ascontiguousarray(values)
