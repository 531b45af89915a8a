"""`/api/curves` and `/api/trials/{id}/profile`: curves of metrics, downsampled so that no spike is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from determined.curves import metric_keys
from determined.curves.chart_data import Axis, Curves, DrawnTrial, curves_data
from determined.sentences import counted
from determined.store.store import Store
from determined.web.answers import Route
from determined.web.identifiers import MOST_DRAWN, DrawnIds, Id, numbers
from determined.web.state import ServerState, reading, state_of, version
from determined.web.tables.trial_rows import trial_status

if TYPE_CHECKING:
    from determined.curves.trials import CurveReader

# numpy is imported by the first chart: the server starts a tenth of a second earlier.

router = APIRouter(route_class=Route)

Place = Annotated[float, Field(ge=-9.2e18, le=9.2e18, allow_inf_nan=False)]
"""A place on an axis; as a step it fits into the 64 bits that a database has."""


@router.get("/api/curves")
def curves(
    request: Request,
    trials: DrawnIds,
    key: str,
    axis: Axis = "batches",
    low: Annotated[Place | None, Query(alias="from")] = None,
    high: Annotated[Place | None, Query(alias="to")] = None,
    points: Annotated[int, Query(ge=2, le=10_000)] = 1000,
    archived: bool = False,
) -> Curves:
    """Return the curves of one metric for several trials, on one grid.

    With `from` and `to` only that part, in more detail; with `archived` also the points that a later attempt repeats,
    as further curves. Of a single trial, `attempts` has the beginnings of its attempts after the first.
    """
    seen = version(request)
    state = state_of(request)
    known: Curves | None = state.recent_curves.find(seen, request.url.query)
    if known is not None:
        return known
    wanted = numbers(trials, MOST_DRAWN)
    with reading(request) as store:
        states = {row.id: trial_status(row)[0] for row in store.overview.trials(trial_ids=wanted, latest=False)}
        repeated = (
            [(one, attempt) for one in wanted for attempt in store.reports.overwritten_attempts(one)]
            if archived
            else []
        )
        reader = _reader(store, state)
        drawing = reader.drawing(
            wanted, metric_keys.split(key), axis, low=low, high=high, most=points, overwritten=repeated
        )
        others = reader.others(wanted, metric_keys.split(key))
        alone = len(wanted) == 1 and wanted[0] in states and not drawing.damaged
        attempts = reader.attempt_places(wanted[0], axis) if alone else {}
        started = {one.trial_id: one.started for one in store.reports.versions(wanted)}
    which = [*((number, None) for number in wanted), *repeated]
    drawn = [DrawnTrial(number, states.get(number), started.get(number), attempt) for number, attempt in which]
    note = _note(state.cache.trouble, others)
    found = curves_data(drawing, drawn, axis, version=seen, low=low, high=high, note=note, attempts=attempts)
    state.recent_curves.keep(seen, request.url.query, found, len(drawing.x) * (2 * len(drawn) + 1))
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
    drawn = [DrawnTrial(trial_id, trial.state, started)]
    return curves_data(drawing, drawn, "time", version=seen, low=low, high=high)


class Moment(TypedDict):
    """A point of a curve: its place on the axis, and when it was reported."""

    x: float
    time: float


@router.get("/api/trials/{trial_id}/moment")
def moment(
    request: Request,
    trial_id: Id,
    key: str,
    axis: Axis = "batches",
    x: Place | None = None,
    at: Annotated[float | None, Query(alias="time", allow_inf_nan=False)] = None,
) -> Moment:
    """Return the point of a trial's curve that is nearest to a place on its axis, or to a time."""
    wanted = x if at is None else at
    if wanted is None or (x is not None and at is not None):
        raise HTTPException(422, "name either x or time")
    with reading(request) as store:
        store.experiments.trial(trial_id)
        found = _reader(store, state_of(request)).nearest_report(
            trial_id, metric_keys.split(key), axis, wanted, by_time=at is not None
        )
    if found is None:
        raise HTTPException(404, "this metric has no points on this axis")
    return {"x": found[0], "time": found[1]}


def _note(trouble: str | None, others: int) -> str | None:
    """Return why charts are not cached, and how many values of the metric cannot be drawn; None if neither applies."""
    left_out = f"{counted(others, 'value')} of this metric {'is no number' if others == 1 else 'are no numbers'}"
    return "; ".join([*([] if trouble is None else [trouble]), *([left_out] if others else [])]) or None


def _reader(store: Store, state: ServerState) -> CurveReader:
    """Return a reader of the store's curves that uses the server's cache."""
    from determined.curves.trials import CurveReader

    return CurveReader(store, state.cache)
