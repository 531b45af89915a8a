"""States of standalone runs (started without a search), derived from the newest attempts of their trials."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from determined.config.stored import StoredConfig
from determined.store.experiment_records import Experiment
from determined.store.process import Process, is_running, on_this_machine
from determined.store.states import EXPERIMENT_ENDED, AttemptState, ExperimentState, TrialState

# An interrupted run continues when its program is started again: only `cancel` and `kill` make it CANCELED.
STATES_AFTER_THE_END: dict[AttemptState, ExperimentState] = {
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
    return "ERROR" if on_this_machine(process) and not is_running(process) else "ACTIVE"


def common_state(states: Sequence[ExperimentState]) -> ExperimentState:
    """Return the state of a standalone experiment with several trials, from their states in order, newest last.

    ACTIVE if a trial is running, else COMPLETED if a trial completed, else the state of the newest trial.
    """
    # A failure of one trial does not hide that another one is running or has completed.
    for state in ("ACTIVE", "COMPLETED"):
        if state in states:
            return state
    return states[-1]


def trial_state(attempt: AttemptState, process: Process) -> TrialState:
    """Return the state of the trial of a standalone run from its newest attempt."""
    return _OF_TRIAL[experiment_state(attempt, process)]


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


def unreported_reason(attempt: AttemptState, state: ExperimentState | TrialState) -> str | None:
    """Return why a run counts as failed although its process reported no end, or None."""
    if attempt == "running" and state == "ERROR":
        return "The process ended without reporting its end, as after SIGKILL or a loss of power."
    return None


def name(config: dict[str, Any], program: str) -> str:
    """Return the name of a standalone run: the configured one, or else the file name of its program."""
    return str(StoredConfig(config).name or os.path.basename(program))
