"""`/api/metrics`: the names of all metrics that were reported."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.curves import metric_keys
from determined.web.answers import Route
from determined.web.identifiers import Id
from determined.web.state import reading, state_of, version
from determined.web.tables.stored_json import reported_metrics

router = APIRouter(route_class=Route)

_MOST_TRIALS = 50  # trials without statistics whose reports are read


class MetricKey(TypedDict):
    """A metric. `numeric` is false if none of its values is a number."""

    key: str
    group: str
    name: str
    numeric: bool


class MetricKeys(TypedDict):
    """The metrics of a trial, of an experiment, or of the store, by group and name.

    The metrics of trials whose statistics are not computed yet are read from their first and newest reports, but only
    for the newest of these trials: `unread_trials` is the number of the others. Damaged reports are skipped.
    """

    version: str
    keys: list[MetricKey]
    unread_trials: int


@router.get("/api/metrics")
def metrics(request: Request, experiment: Id | None = None, trial: Id | None = None) -> MetricKeys:
    """Return the metrics of a trial, of an experiment, or of all trials."""
    seen = version(request)
    with reading(request) as store:
        if trial is not None:
            ids = [store.experiments.trial(trial).id]
        elif experiment is not None:
            store.experiments.get(experiment)
            ids = sorted(store.overview.ids_by_number(experiment).values(), reverse=True)
        else:
            ids = store.overview.trial_ids()
        known, unknown = state_of(request).statistics.numeric(store, ids)
        for trial_id in unknown[:_MOST_TRIALS]:
            for key, numeric in reported_metrics(store, trial_id).items():
                known[key] = known.get(key, False) or numeric
    keys: list[MetricKey] = []
    for key in sorted(known):
        group, name = metric_keys.split(key)
        keys.append({"key": key, "group": group, "name": name, "numeric": known[key]})
    return {"version": seen, "keys": keys, "unread_trials": max(0, len(unknown) - _MOST_TRIALS)}
