"""Requests that a user has made and that the process which runs the experiment has not carried out yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from determined.store.states import EXPERIMENT_ENDED
from determined.store.substores.overview import RequestRow, StoredExperiment, StoredTrial

Pending = Literal["pause", "activate", "cancel", "kill"]
_REQUESTED: tuple[Pending, ...] = ("pause", "activate", "cancel", "kill")


def pending_request(row: StoredExperiment, request: RequestRow) -> Pending | None:
    """Return the newest request to an experiment if its runner has not carried it out yet.

    A runner records a pause as handled when it begins to carry it out, but it is pending until the state changes. A
    pause that is older than the lease of the current runner was carried out by an earlier runner.
    """
    kind = request_kind(request.kind)
    if row.state in EXPERIMENT_ENDED or row.runner is None:
        return None
    if request.id > row.last_request:
        return kind
    begun_by_present_runner = row.held_since is not None and request.created > row.held_since
    return kind if kind == "pause" and row.state == "ACTIVE" and begun_by_present_runner else None


def pending_trials(
    requests: Iterable[RequestRow], experiments: Mapping[int, StoredExperiment], trials: Iterable[StoredTrial]
) -> dict[int, Pending]:
    """Return the pending request of each trial, by trial id: its own, else that of its experiment."""
    own: dict[int, Pending] = {}
    of_experiments: dict[int, Pending] = {}
    for request in requests:
        experiment = experiments.get(request.experiment_id)
        if experiment is None:
            continue
        if request.trial_id is not None and request.id > experiment.last_request:
            own[request.trial_id] = request_kind(request.kind)
        elif request.trial_id is None and (found := pending_request(experiment, request)) is not None:
            of_experiments[experiment.id] = found
    if not own and not of_experiments:
        return {}
    return {
        trial.id: own.get(trial.id) or of_experiments[trial.experiment_id]
        for trial in trials
        if trial.ended is None and (trial.id in own or trial.experiment_id in of_experiments)
    }


def request_kind(kind: str) -> Pending:
    """Return a stored request under the name that the page uses; a request without such a name counts as a kill."""
    return next(found for found in _REQUESTED if found == kind or (found == "kill" and kind not in _REQUESTED))
