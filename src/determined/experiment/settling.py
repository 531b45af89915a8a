"""What the runner before this one left behind: ends that nobody heard of, and decisions that were not carried out."""

from __future__ import annotations

from determined.experiment import deciding
from determined.experiment.hearing import look
from determined.experiment.running import Running
from determined.searchers.base import Exited, ExitReason
from determined.store.experiment_records import TRIAL_ENDED

_TOLD: dict[str, ExitReason] = {
    "COMPLETED": "completed",
    "STOPPED_EARLY": "completed",
    "INVALID_HP": "invalid_hp",
    "CANCELED": "canceled",
    "ERROR": "errored",
}


def settle(run: Running) -> None:
    """Trials at a goal are decided upon when they are there again, if what they did is not saved."""
    deciding.fail_if_pointless(run)
    if run.failure is not None:
        return  # nothing may follow any more from what the trials did
    _tell_of_ended(run)
    for trial in run.live():
        look(run, trial)
        saved = run.checkpoints.holds(trial.id, trial.last_step)
        if trial.ended_by is not None and saved:
            deciding.close(run, trial)
        elif not saved:
            trial.at_goal = None
            trial.owes_pause = trial.suspended and trial.last_step >= 0


def _tell_of_ended(run: Running) -> None:
    """A cancelled search that is extended goes on without the trials that were cancelled with it."""
    journal = run.ask(lambda store: store.journal(run.experiment.id))
    heard: set[int] = set()
    for entry in journal:
        if entry.event["event"] == "exited":
            heard.add(entry.event["number"])
        elif entry.event["event"] == "reopened":
            heard.difference_update(entry.event["numbers"])
    for trial in list(run.trials.values()):
        if trial.state in TRIAL_ENDED and trial.number not in heard:
            deciding.tell(run, Exited(trial.number, _TOLD[trial.state]))
