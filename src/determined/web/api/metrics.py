"""`/api/metrics`: the names of all metrics that were reported."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet

router = APIRouter(route_class=Route)


class MetricKey(TypedDict):
    """A metric. `numeric` is false if it has values that are not numbers."""

    key: str
    group: str
    name: str
    numeric: bool


class MetricKeys(TypedDict):
    """The metrics of a trial, of an experiment, or of the store, by group and name."""

    version: str
    keys: list[MetricKey]


@router.get("/api/metrics")
def metrics(request: Request, experiment: int | None = None, trial: int | None = None) -> MetricKeys:
    """Return the metrics of a trial or an experiment; without either, those of the newest trials."""
    raise not_yet()
