"""`/api/experiments/{id}/decisions`: what a search decided, and why."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.errors import InvalidExperimentException
from determined.web.answers import Route, number
from determined.web.api.shapes import Number
from determined.web.identifiers import Id
from determined.web.state import reading, state_of, version

router = APIRouter(route_class=Route)


class SearchDecision(TypedDict):
    """One decision, or an event that the search had to react to. `rank` is the place among `of` compared results."""

    sequence: int
    time: float | None
    trial: int | None
    number: int | None
    bracket: int | None
    rung: int | None
    batches: float | None
    metric: Number
    rank: int | None
    of: int | None
    action: Literal[
        "created", "copied", "promoted", "continued", "paused", "stopped", "completed", "failed", "canceled", "extended"
    ]
    text: str


class Decisions(TypedDict):
    """All decisions of a search in their order.

    `rungs` has the lengths at which the trials of each bracket are compared, in units of `time_metric`. `problem` says
    why some decisions have no reason.
    """

    version: str
    method: str
    time_metric: str
    problem: str | None
    rungs: list[list[float]]
    decisions: list[SearchDecision]


@router.get("/api/experiments/{experiment_id}/decisions")
def decisions(request: Request, experiment_id: Id) -> Decisions:
    """Return the decisions of an experiment's search."""
    seen = version(request)
    with state_of(request).searches.of(experiment_id) as history, reading(request) as store:
        if store.experiments.get(experiment_id).is_standalone:
            raise InvalidExperimentException(f"experiment {experiment_id} is a standalone run: it has no search")
        numbers = {trial_id: place for place, trial_id in store.overview.ids_by_number(experiment_id).items()}
        found = history.update(store, experiment_id)
    rows: list[SearchDecision] = [
        {
            "sequence": one.sequence,
            "time": None,  # the journal records an order, and no times
            "trial": one.trial_id,
            "number": None if one.trial_id is None else numbers.get(one.trial_id),
            "bracket": one.bracket,
            "rung": one.rung,
            "batches": one.time,
            "metric": number(one.metric),
            "rank": one.place,
            "of": one.of,
            "action": one.kind,
            "text": one.text,
        }
        for one in found.decisions
    ]
    return {
        "version": seen,
        "method": found.method,
        "time_metric": found.time_metric,
        "problem": found.problem,
        "rungs": found.rungs,
        "decisions": rows,
    }
