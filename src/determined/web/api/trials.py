"""`/api/trials`: rows of the table of runs, and everything about one trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from determined.config.flattening import flat
from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.curves import exact_json, metric_keys
from determined.experiment.creation.trial_alone import TrialAlone, trial_alone
from determined.store.experiment_records import Experiment
from determined.store.experiment_records import Trial as TrialRecord
from determined.store.records import Attempt as StoredAttempt
from determined.store.records import StoredCheckpoint
from determined.store.store import Store
from determined.web.actions.possible import trial_actions, trial_commands, trial_python
from determined.web.answers import Route, representable
from determined.web.api.shapes import ActionState, Plain, Summary
from determined.web.identifiers import Id
from determined.web.state import reading, state_of, version
from determined.web.tables.stored_json import shallow
from determined.web.tables.trial_rows import TrialRow, read_trials, trial_rows

router = APIRouter(route_class=Route)


class TrialRows(TypedDict):
    """All trials, newest first. `pending_summaries` trials still lack statistics of the metrics that were asked for."""

    version: str
    rows: list[TrialRow]
    pending_summaries: int


class Attempt(TypedDict):
    """An attempt of a trial. `checkpoint` is the one that it started from, null if it started from scratch."""

    number: int
    started: float
    ended: float | None
    first_batch: int
    last_batch: int | None
    checkpoint: str | None
    why_ended: str | None
    exit_code: int | None
    host: str
    state: str


class TrialMetric(TypedDict):
    """A metric that a trial has reported. `numeric` is false if none of its values is a number."""

    key: str
    group: str
    name: str
    numeric: bool
    summary: Summary


class OutputFile(TypedDict):
    """A file that a trial uploaded in addition to its checkpoints."""

    path: str
    bytes: int


class TrialDetail(TypedDict):
    """Everything about one trial but its curves, checkpoints and log.

    `alone` has the settings of a fork that trains its hyperparameters alone, `alone_note` names those that are masked.
    """

    version: str
    row: TrialRow
    attempts: list[Attempt]
    command: str | None
    git_commit: str | None
    source_checkpoint: str | None
    status: str
    reason: str | None
    goal: float | None
    rungs: list[float]
    bracket: int
    seed: int
    assigned_hparams: Plain
    alone: list[str]
    alone_note: str | None
    metrics: list[TrialMetric]
    samples: list[str]
    outputs: list[OutputFile]
    metadata: dict[str, Any]
    actions: list[ActionState]
    commands: dict[str, str]
    python: dict[str, str]


@router.get("/api/trials")
def trials(
    request: Request,
    experiment: Id | None = None,
    metrics: Annotated[list[str] | None, Query(alias="metric", max_length=200)] = None,
    archived: bool = False,
) -> TrialRows:
    """Return all trials, or those of an experiment, with the statistics of the named metrics."""
    seen = version(request)
    with reading(request) as store:
        if experiment is not None:
            store.experiments.get(experiment)
        table = read_trials(store.overview, experiment_id=experiment, archived=archived)
        ids = [trial.id for trial in table.trials]
        found, missing = state_of(request).statistics.of_trials(store, ids, metrics) if metrics else ({}, 0)
    return {"version": seen, "rows": trial_rows(table, found), "pending_summaries": missing}


@router.get("/api/trials/{trial_id}")
def trial(request: Request, trial_id: Id) -> TrialDetail:
    """Return one trial."""
    seen = version(request)
    with reading(request) as store:
        stored = store.experiments.trial(trial_id)
        found = stored._replace(hparams=shallow(stored.hparams))
        experiment = store.experiments.get(found.experiment_id)
        table = read_trials(store.overview, trial_ids=[trial_id])
        output = store.outputs.find(trial_id)
        alone = TrialAlone([], None) if experiment.is_standalone else trial_alone(experiment, found)
        return {
            "version": seen,
            "row": trial_rows(table, {})[0],
            "attempts": _attempts(store, found),
            "command": found.command or _entrypoint(experiment),
            "git_commit": found.git_commit,
            "source_checkpoint": found.source_checkpoint_id,
            "status": found.phase,
            "reason": found.reason or None,
            "goal": found.goal,
            "rungs": found.rungs,
            "bracket": found.bracket,
            "seed": found.seed,
            "assigned_hparams": representable(flat(mask_secrets(found.hparams))),
            "alone": alone.settings,
            "alone_note": alone.note,
            "metrics": _metrics(state_of(request).statistics.of_trial(store, trial_id)),
            "samples": _samples(store, trial_id),
            "outputs": [
                {"path": path, "bytes": size} for path, size in ({} if output is None else output.resources).items()
            ],
            "metadata": representable(mask_secrets(store.metadata(trial_id))),
            "actions": trial_actions(experiment, found),
            "commands": trial_commands(found),
            "python": trial_python(found),
        }


def _attempts(store: Store, trial: TrialRecord) -> list[Attempt]:
    """Return the attempts of a trial, oldest first."""
    checkpoints = store.checkpoints(trial.id)
    last_steps = store.overview.last_steps(trial.id)
    attempts = store.attempts(trial.id)
    return [
        {
            "number": one.number,
            "started": one.started,
            "ended": one.ended,
            "first_batch": one.start_step,
            "last_batch": last_steps.get(one.number),
            "checkpoint": _origin(one, trial, checkpoints),
            "why_ended": _why_ended(one, trial, is_last=one is attempts[-1]),
            "exit_code": one.exit_code,
            "host": one.process.host,
            "state": one.state,
        }
        for one in attempts
    ]


def _origin(attempt: StoredAttempt, trial: TrialRecord, checkpoints: Sequence[StoredCheckpoint]) -> str | None:
    """Return the id of the checkpoint that an attempt started from, found by its step; None if there is none.

    An attempt without a checkpoint of its own trial starts from the checkpoint of another trial, if there is one.
    """
    for one in checkpoints:  # newest first
        if one.steps_completed == attempt.start_step and one.attempt < attempt.number:
            return one.checkpoint_id
    return None if attempt.start_step else trial.source_checkpoint_id


def _why_ended(attempt: StoredAttempt, trial: TrialRecord, *, is_last: bool) -> str | None:
    """Return why an attempt ended, preferably the reason of its trial; None if it is running or was successful."""
    if is_last and trial.reason:
        return trial.reason
    if attempt.reason:
        return attempt.reason
    if attempt.ended is None:
        return None if is_last else "The process ended without reporting its end."
    return _ENDS.get(attempt.state)


_ENDS = {
    "stopped": "It saved a checkpoint and stopped, to be continued.",
    "canceled": "It was canceled.",
    "failed": "It failed; no error was recorded.",
}
"""The reasons of attempts that have no recorded reason, by state."""


def _entrypoint(experiment: Experiment) -> str | None:
    """Return the command of a search's trials, secrets masked."""
    found = mask_secrets(StoredConfig(experiment.config).entrypoint, "entrypoint")
    return found if found is None or isinstance(found, str) else " ".join(map(str, found))


def _metrics(summaries: dict[str, Summary]) -> list[TrialMetric]:
    """Return the metrics of a trial with their statistics."""
    rows: list[TrialMetric] = []
    for key, summary in sorted(summaries.items()):
        group, name = metric_keys.split(key)
        # A metric without values has damaged reports; its chart says so.
        numeric = summary["count"] == 0 or summary["no_numbers"] < summary["count"]
        rows.append({"key": key, "group": group, "name": name, "numeric": numeric, "summary": summary})
    return rows


def _samples(store: Store, trial_id: int) -> list[str]:
    """Return the keys of the metrics that a trial reported without a step."""
    found = {
        metric_keys.join(group, name)
        for group, body in store.overview.example_samples(trial_id)
        for name in flat(exact_json.metrics_of(body))
    }
    return sorted(found)
