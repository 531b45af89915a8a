"""Rows of the table of trials, built from few queries."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from determined.config.effective import differences, effective
from determined.config.flattening import flat
from determined.config.metric_values import number as metric_number
from determined.config.secrets.masking import mask_secrets
from determined.curves import exact_json
from determined.store import standalone_runs
from determined.store.experiment_records import nodes_text
from determined.store.states import trial_progress
from determined.store.substores.overview import Overview, StoredExperiment, StoredTrial
from determined.web.answers import number
from determined.web.api.shapes import Number, Plain, Summary
from determined.web.tables.pending import Pending, pending_trials, request_kind
from determined.web.tables.stored_json import loads

_LONGEST_REASON = 300
# Hyperparameters with only these types need neither flattening nor masking, which saves much of the time of a table.
_NUMBERS = frozenset({int, float, bool, type(None)})


class TrialRow(TypedDict):
    """A trial. `metrics` has the statistics of the metrics that were asked for, null while they are computed."""

    id: int
    experiment: int
    experiment_name: str
    number: int
    state: str
    pending: Pending | None
    labels: list[str]
    archived: bool
    owner: str
    host: str | None
    hparams: Plain
    differing_hparams: list[str]
    batches: int
    progress: float | None
    created: float
    started: float | None
    ended: float | None
    restarts: int
    attempts: int
    reason: str | None
    metric: str | None
    smaller_is_better: bool
    best: Number
    latest: Number
    checkpoints: int
    checkpoint_bytes: int
    metrics: dict[str, Summary | None]


@dataclass(frozen=True)
class TrialTable:
    """Trials with what belongs to their rows: the experiments, sizes of checkpoints, and requests in progress."""

    trials: Sequence[StoredTrial]
    experiments: Mapping[int, StoredExperiment]
    checkpoints: Mapping[int, tuple[int, int]]  # trial -> number and bytes
    pending: Mapping[int, Pending]  # by trial


def read_trials(
    overview: Overview,
    *,
    experiment_id: int | None = None,
    trial_ids: Sequence[int] | None = None,
    archived: bool = False,
) -> TrialTable:
    """Read trials: all, those of an experiment, or given ones."""
    trials = overview.trials(experiment_id=experiment_id, trial_ids=trial_ids, archived=archived)
    wanted = {row.experiment_id for row in trials}
    alone = experiment_id if experiment_id is not None else next(iter(wanted)) if len(wanted) == 1 else None
    experiments = overview.experiments(experiment_id=alone, archived=True)
    pending = pending_trials(overview.requests(alone), {row.id: row for row in experiments}, trials)
    pending |= {row.trial_id: request_kind(row.kind) for row in overview.requests_to_runs() if row.trial_id is not None}
    return TrialTable(
        trials, {row.id: row for row in experiments}, sizes_by_trial(overview.checkpoints(alone)), pending
    )


def trial_rows(table: TrialTable, summaries: Mapping[int, Mapping[str, Summary | None]]) -> list[TrialRow]:
    """Return the rows of trials. `summaries` are the statistics of metrics by trial and key."""
    labels = {row.id: loads(row.labels) for row in table.experiments.values()}
    names = {row.id: experiment_name(row) for row in table.experiments.values()}
    return [
        _trial_row(
            trial,
            table.experiments[trial.experiment_id],
            names[trial.experiment_id],
            labels[trial.experiment_id],
            table.checkpoints.get(trial.id, (0, 0)),
            table.pending.get(trial.id),
            summaries.get(trial.id, {}),
        )
        for trial in table.trials
    ]


def _trial_row(
    trial: StoredTrial,
    experiment: StoredExperiment,
    name: str,
    labels: list[str],
    checkpoints: tuple[int, int],
    pending: Pending | None,
    summaries: Mapping[str, Summary | None],
) -> TrialRow:
    """Return the row of a trial."""
    state, ended, reason = trial_status(trial)
    hparams, differing = _shown_hparams(trial.hparams, trial.passed_hparams)
    return {
        "id": trial.id,
        "experiment": trial.experiment_id,
        "experiment_name": name,
        "number": trial.number,
        "state": state,
        "pending": pending,
        "labels": labels,
        "archived": bool(experiment.archived),
        "owner": experiment.owner,
        "host": trial.host if trial.nodes is None else nodes_text(loads(trial.nodes)),
        "hparams": hparams,
        "differing_hparams": differing,
        "batches": trial.steps_completed,
        "progress": trial_progress(state, trial.progress),
        "created": trial.created,
        "started": trial.started,
        "ended": ended,
        "restarts": trial.restarts,
        "attempts": trial.attempts,
        "reason": first_line(reason),
        "metric": experiment.metric,
        "smaller_is_better": bool(experiment.smaller_is_better),
        "best": number(trial.best),
        "latest": _latest(trial.latest_validation, experiment.metric),
        "checkpoints": checkpoints[0],
        "checkpoint_bytes": checkpoints[1],
        "metrics": dict(summaries),
    }


# Cached by their texts: decoding, masking and flattening take most of the time of a table, for which a page asks
# every second. What is returned is only sent, and never changed.
@functools.lru_cache(maxsize=10_000)
def _shown_hparams(assigned_text: str, passed_text: str | None) -> tuple[Plain, list[str]]:
    """Return the hyperparameters that a trial uses, flat and masked, and the names of those with another value."""
    assigned = loads(assigned_text)
    passed = None if passed_text is None else loads(passed_text)
    used = assigned if passed is None else effective(assigned, passed)
    shown = used if _NUMBERS.issuperset(map(type, used.values())) else flat(mask_secrets(used))
    return shown, [found.name for found in differences(assigned, passed)] if passed else []


def trial_status(trial: StoredTrial) -> tuple[Any, float | None, str | None]:
    """Return state, end and reason of a trial; those of a standalone run follow from its attempt."""
    if trial.state is not None:
        return trial.state, trial.ended, trial.reason
    return standalone_runs.trial_status(trial.standalone_run)


def experiment_name(row: StoredExperiment) -> str:
    """Return the name of an experiment; a standalone run without one has that of its program."""
    return row.name or (standalone_runs.name(loads(row.config), row.program) if row.is_standalone else "")


def sizes_by_trial(checkpoints: Iterable[tuple[int, str]]) -> dict[int, tuple[int, int]]:
    """Return the number and the bytes of each trial's checkpoints."""
    found: dict[int, tuple[int, int]] = {}
    for trial_id, resources in checkpoints:
        count, size = found.get(trial_id, (0, 0))
        found[trial_id] = (count + 1, size + _bytes(resources))
    return found


@functools.lru_cache(maxsize=10_000)
def _bytes(resources: str) -> int:
    """Return the size of a checkpoint by its files."""
    return int(sum(loads(resources).values()))


@functools.lru_cache(maxsize=10_000)
def _latest(validation: str | None, metric: str | None) -> Any:
    """Return the searcher metric of the newest validation."""
    if validation is None or metric is None:
        return None
    return number(metric_number(exact_json.metrics_of(validation).get(metric)))


def first_line(reason: str | None) -> str | None:
    """Return the first line of a reason, for a row."""
    if not reason:
        return None
    line = reason.strip().split("\n", 1)[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"
