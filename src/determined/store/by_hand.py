"""What the list of experiments says of runs that somebody started by hand: the newest attempts of their trials tell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from determined.store.experiment_records import ExperimentState, TrialState
from determined.store.process import Process, is_running, on_this_machine
from determined.store.records import AttemptState

STATES_AFTER_THE_END: dict[AttemptState, ExperimentState] = {
    "completed": "COMPLETED",
    "stopped": "CANCELED",
    "failed": "ERROR",
}
_OF_TRIAL: dict[ExperimentState, TrialState] = {
    "ACTIVE": "RUNNING",
    "COMPLETED": "COMPLETED",
    "CANCELED": "CANCELED",
    "ERROR": "ERROR",
}


def experiment_state(attempt: AttemptState, process: Process) -> ExperimentState:
    """A process that is gone without a word was killed; of processes of other machines their last word is believed."""
    if attempt != "running":
        return STATES_AFTER_THE_END[attempt]
    return "ERROR" if on_this_machine(process) and not is_running(process) else "ACTIVE"


def common_state(states: Sequence[ExperimentState]) -> ExperimentState:
    """Of an experiment with several trials, the newest last: one that is at work counts first, then a good end."""
    for state in ("ACTIVE", "COMPLETED"):
        if state in states:
            return state
    return states[-1]


def trial_state(attempt: AttemptState, process: Process) -> TrialState:
    return _OF_TRIAL[experiment_state(attempt, process)]


def unreported_reason(attempt: AttemptState, state: ExperimentState | TrialState) -> str | None:
    """Return why a run counts as failed although it reported no end itself."""
    if attempt == "running" and state == "ERROR":
        return "The process ended without reporting its end, as after SIGKILL or a loss of power."
    return None


def name(config: dict[str, Any], program: str) -> str:
    return str(config.get("name") or os.path.basename(program))
