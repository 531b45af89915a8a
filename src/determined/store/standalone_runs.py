"""States of standalone runs (started without a search), derived from the newest attempts of their trials."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from determined.config.stored import StoredConfig
from determined.store.experiment_records import Experiment
from determined.store.process import Process, may_be_running
from determined.store.states import (
    EXPERIMENT_ENDED,
    AttemptState,
    EndState,
    ExperimentState,
    TrialState,
    trial_progress,
)

# An interrupted run continues when its program is started again: only `cancel` and `kill` make it CANCELED.
STATES_AFTER_THE_END: dict[EndState, ExperimentState] = {
    "completed": "COMPLETED",
    "stopped": "PAUSED",
    "canceled": "CANCELED",
    "failed": "ERROR",
}
_OF_TRIAL: dict[ExperimentState, TrialState] = {
    "ACTIVE": "RUNNING",
    "COMPLETED": "COMPLETED",
    "PAUSED": "PAUSED",
    "CANCELED": "CANCELED",
    "ERROR": "ERROR",
}


def experiment_state(attempt: AttemptState, process: Process) -> ExperimentState:
    """Return the state of a standalone run from its newest attempt.

    An attempt recorded as running whose process no longer exists was killed, so the run failed. Processes on other
    hosts cannot be checked, so the stored state is trusted.
    """
    if attempt != "running":
        return STATES_AFTER_THE_END[attempt]
    return "ACTIVE" if may_be_running(process) else "ERROR"


class RunOfTrial(NamedTuple):
    """The record of a trial of a standalone experiment, from its row and its newest attempt."""

    progress: float | None
    reason: str | None
    attempt_id: int
    attempt: AttemptState
    ended: float | None
    process: Process


class ExperimentStatus(NamedTuple):
    """The state of an experiment, its progress from 0 to 1, when it ended, and why it ended."""

    state: ExperimentState
    progress: float | None
    ended: float | None
    reason: str | None


class TrialStatus(NamedTuple):
    """The state of a trial, when it ended, and why."""

    state: TrialState
    ended: float | None
    reason: str | None


def experiment_status(runs: Iterable[RunOfTrial]) -> ExperimentStatus:
    """Return the status of a standalone experiment, whose program may run several trials, also at the same time.

    Its state is ACTIVE if a trial is running, else COMPLETED if a trial completed, else that of the newest attempt.
    """
    # By the id of the attempt and not by time, because clocks can be set back. Not by the trial: an older one may be
    # resumed.
    ordered = sorted(runs, key=lambda run: run.attempt_id)
    if not ordered:
        return ExperimentStatus("COMPLETED", None, None, None)
    states = [experiment_state(run.attempt, run.process) for run in ordered]
    newest = ordered[-1]
    # A failure of one trial does not hide that another one is running or has completed.
    state = next((found for found in ("ACTIVE", "COMPLETED") if found in states), states[-1])
    progress = [trial_progress(_OF_TRIAL[one], run.progress) for one, run in zip(states, ordered, strict=True)]
    known = [share for share in progress if share is not None]
    return ExperimentStatus(
        state,
        progress=sum(known) / len(ordered) if known else None,
        ended=None if state == "ACTIVE" else max((run.ended for run in ordered if run.ended is not None), default=None),
        # In other states the failure of the newest attempt is not that of the experiment.
        reason=newest.reason or _unreported_reason(newest.attempt, state) if state == states[-1] else None,
    )


def trial_status(run: RunOfTrial) -> TrialStatus:
    """Return the status of a trial of a standalone experiment."""
    state = experiment_state(run.attempt, run.process)
    return TrialStatus(_OF_TRIAL[state], run.ended, run.reason or _unreported_reason(run.attempt, state))


def is_finished_or_interrupted(experiment: Experiment) -> bool:
    """Return whether an experiment has no process and gets none without a command: it ended, or was interrupted.

    A paused search has trials that its next runner continues; a paused standalone run has no process at all.
    """
    return experiment.state in EXPERIMENT_ENDED or (experiment.is_standalone and experiment.state == "PAUSED")


def how_to_resume(experiment: Experiment) -> str:
    """Return how the user continues a paused experiment, as the end of a sentence: a `det` command or its program."""
    if experiment.is_standalone:
        return f"start its program again: {experiment.program}"
    return f"det experiment activate {experiment.id}"


def _unreported_reason(attempt: AttemptState, state: ExperimentState) -> str | None:
    """Return why a run counts as failed although its process reported no end, or None."""
    if attempt == "running" and state == "ERROR":
        return "The process ended without reporting its end, as after SIGKILL or a loss of power."
    return None


def name(config: dict[str, Any], program: str) -> str:
    """Return the name of a standalone run: the configured one, or else the file name of its program."""
    return str(StoredConfig(config).name or os.path.basename(program))
