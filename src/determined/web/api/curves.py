"""`/api/curves` and `/api/trials/{id}/profile`: curves of metrics, downsampled so that no spike is lost."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet
from determined.web.api.shapes import Id

router = APIRouter(route_class=Route)

Axis = Literal["batches", "epochs", "time"]


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

    Of `points` reported values `drawn` are in the answer.
    """

    trial: int
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
    low: Annotated[float | None, Query(alias="from")] = None,
    high: Annotated[float | None, Query(alias="to")] = None,
    points: Annotated[int, Query(ge=2, le=10_000)] = 1000,
    archived: bool = False,
) -> Curves:
    """Return the curves of one metric for several trials, on one grid.

    With `from` and `to` only that part, in more detail; with `archived` also the points that a later attempt replaced.
    """
    raise not_yet()


@router.get("/api/trials/{trial_id}/profile")
def profile(
    request: Request,
    trial_id: Id,
    key: str,
    low: Annotated[float | None, Query(alias="from")] = None,
    high: Annotated[float | None, Query(alias="to")] = None,
    points: Annotated[int, Query(ge=2, le=10_000)] = 1000,
) -> Curves:
    """Return the curve of a metric that a trial reported without a step, such as the use of a GPU, over time."""
    raise not_yet()
