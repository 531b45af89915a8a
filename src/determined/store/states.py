"""The states of experiments, trials, attempts and checkpoints, which of them are terminal, and the progress of trials.

The words are those in the database. They are literals and not enumerations because rows are read and written as they
are; the SDK shows them as the enumerations of `determined.experimental.client`.
"""

from typing import Literal

ExperimentState = Literal[
    "ACTIVE",
    "PAUSED",
    "STOPPING_COMPLETED",
    "STOPPING_CANCELED",
    "STOPPING_KILLED",
    "STOPPING_ERROR",
    "COMPLETED",
    "CANCELED",
    "ERROR",
]
TrialState = Literal[
    "QUEUED",
    "RUNNING",
    "PAUSED",
    "STOPPING",
    "COMPLETED",
    "STOPPED_EARLY",
    "INVALID_HP",
    "CANCELED",
    "ERROR",
]
# How an attempt ended. "stopped": interrupted, to be resumed; "canceled": by `cancel` or `kill`.
EndState = Literal["completed", "stopped", "canceled", "failed"]
AttemptState = Literal["running", EndState]
CheckpointState = Literal["ACTIVE", "PARTIALLY_DELETED", "DELETED"]

# Terminal states: nothing more happens unless the user continues the experiment.
EXPERIMENT_ENDED: tuple[Literal["COMPLETED", "CANCELED", "ERROR"], ...] = ("COMPLETED", "CANCELED", "ERROR")
TRIAL_ENDED: tuple[TrialState, ...] = (*EXPERIMENT_ENDED, "STOPPED_EARLY", "INVALID_HP")
# Failed trials, as they are counted, listed and marked: also one whose program rejected its hyperparameters.
TRIAL_FAILED: tuple[TrialState, ...] = ("ERROR", "INVALID_HP")
# Terminal states without the intended result: a continued experiment starts such trials again.
UNSUCCESSFUL: tuple[Literal["CANCELED", "ERROR"], ...] = ("CANCELED", "ERROR")
# Trials that have processes, or whose exit is being handled.
WITH_PROCESSES: tuple[TrialState, ...] = ("RUNNING", "STOPPING")
# Requested or decided ends of which the trials have not all ended.
EXPERIMENT_STOPPING: tuple[ExperimentState, ...] = (
    "STOPPING_COMPLETED",
    "STOPPING_CANCELED",
    "STOPPING_KILLED",
    "STOPPING_ERROR",
)
# States in which a runner must exist.
EXPERIMENT_RUNNING: tuple[ExperimentState, ...] = ("ACTIVE", *EXPERIMENT_STOPPING)


def trial_progress(state: TrialState, reported: float | None) -> float | None:
    """Return the progress of a trial. A completed one has reached its end, also if its program reports no progress."""
    return 1.0 if state == "COMPLETED" else reported
