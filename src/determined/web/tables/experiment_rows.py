"""Rows of the table of experiments, built from few queries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from typing_extensions import TypedDict

from determined.config.stored import StoredConfig
from determined.store import standalone_runs
from determined.store.process import is_abandoned
from determined.store.ranking import best_trials
from determined.store.states import TRIAL_FAILED
from determined.store.substores.overview import Overview, RequestRow, StoredExperiment, StoredTrial
from determined.web.answers import number
from determined.web.api.shapes import Number
from determined.web.tables.pending import Pending, pending_request, request_kind
from determined.web.tables.stored_json import loads
from determined.web.tables.trial_rows import (
    experiment_name,
    first_line,
    sizes_by_trial,
    trial_status,
)


class ExperimentRow(TypedDict):
    """An experiment. `states` counts its trials by state; `failed` of them are in state ERROR or INVALID_HP.

    An `abandoned` one should be running, but its process has exited and no queue will start it.
    """

    id: int
    name: str
    description: str
    labels: list[str]
    state: str
    pending: Pending | None
    archived: bool
    owner: str
    host: str | None
    standalone: bool
    searcher: str | None
    metric: str | None
    smaller_is_better: bool
    best: Number
    best_trial: int | None
    newest_trial: int | None
    progress: float | None
    created: float
    ended: float | None
    trials: int
    states: dict[str, int]
    failed: int
    checkpoint_bytes: int
    parent: int | None
    reason: str | None
    imported: bool
    has_notes: bool
    queued: bool
    abandoned: bool


def experiment_rows(
    overview: Overview, *, experiment_id: int | None = None, archived: bool = False
) -> list[ExperimentRow]:
    """Return the rows of all experiments, or of one."""
    experiments = overview.experiments(experiment_id=experiment_id, archived=archived)
    trials: dict[int, list[StoredTrial]] = defaultdict(list)
    for trial in overview.trials(experiment_id=experiment_id, archived=archived, latest=False):
        trials[trial.experiment_id].append(trial)
    sizes = sizes_by_trial(overview.checkpoints(experiment_id))
    newest = {row.experiment_id: row for row in overview.requests(experiment_id) if row.trial_id is None}
    of_runs = {row.experiment_id: row for row in overview.requests_to_runs()}
    return [_experiment_row(row, trials[row.id], sizes, newest.get(row.id), of_runs.get(row.id)) for row in experiments]


def _experiment_row(
    row: StoredExperiment,
    trials: list[StoredTrial],
    sizes: Mapping[int, tuple[int, int]],
    request: RequestRow | None,
    request_to_run: RequestRow | None,
) -> ExperimentRow:
    """Return the row of an experiment; the status of a standalone run follows from its trials."""
    states = [trial_status(trial)[0] for trial in trials]
    state, progress, ended, reason = row.state, row.progress, row.ended, row.reason
    if row.is_standalone:
        state, progress, ended, reason = standalone_runs.experiment_status(trial.standalone_run for trial in trials)
    assert state is not None
    pending = pending_request(row, request) if request is not None else None
    if pending is None and request_to_run is not None:
        pending = request_kind(request_to_run.kind)
    best = next(iter(best_trials(trials, bool(row.smaller_is_better))), None)
    counts = Counter(states)
    return {
        "id": row.id,
        "name": experiment_name(row),
        "description": row.description,
        "labels": loads(row.labels),
        "state": state,
        "pending": pending,
        "archived": bool(row.archived),
        "owner": row.owner,
        "host": next((trial.host for trial in trials if trial.host), None) if row.runner is None else row.runner.host,
        "standalone": bool(row.is_standalone),
        "searcher": None if row.is_standalone else StoredConfig(loads(row.config)).searcher.name,
        "metric": row.metric,
        "smaller_is_better": bool(row.smaller_is_better),
        "best": None if best is None else number(best.best),
        "best_trial": None if best is None else best.id,
        "newest_trial": trials[0].id if trials else None,
        "progress": progress,
        "created": row.created,
        "ended": ended,
        "trials": len(trials),
        "states": dict(counts),
        "failed": sum(counts[one] for one in TRIAL_FAILED),
        "checkpoint_bytes": sum(sizes.get(trial.id, (0, 0))[1] for trial in trials),
        "parent": row.parent_id,
        "reason": first_line(reason),
        "imported": bool(row.borrowed),
        "has_notes": bool(row.has_notes),
        "queued": bool(row.queued),
        "abandoned": not row.queued and is_abandoned(row),
    }
