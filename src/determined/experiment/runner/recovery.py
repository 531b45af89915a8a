"""Recovery: reconcile exits and decisions that the previous runner did not process."""

from __future__ import annotations

from determined.experiment.runner import decisions
from determined.experiment.runner.reports import look
from determined.experiment.runner.shared_state import RunnerState
from determined.searchers.base import Exited, ExitReason
from determined.store.states import TRIAL_ENDED

_TOLD: dict[str, ExitReason] = {
    "COMPLETED": "completed",
    "STOPPED_EARLY": "completed",
    "INVALID_HP": "invalid_hp",
    "CANCELED": "canceled",
    "ERROR": "errored",
}


def settle(run: RunnerState) -> None:
    """Reconcile all trials with the store after the previous runner has ended.

    A trial at its goal whose work is not saved is run to the goal again before a decision is made.
    """
    decisions.fail_if_pointless(run)
    if run.failure is not None:
        return  # the experiment is ending: no further decisions
    _tell_of_ended(run)
    for trial in run.live():
        look(run, trial)
        saved = run.checkpoints.holds(trial.id, trial.last_step)
        if trial.ended_by is not None and saved:
            decisions.close(run, trial)
        elif not saved:
            trial.at_goal = None
            trial.owes_pause = trial.suspended and trial.last_step >= 0


def _tell_of_ended(run: RunnerState) -> None:
    """Report ended trials to the searcher that were never reported to it.

    This also allows a canceled search to be extended: it continues without the trials that were canceled.
    """
    journal = run.ask(lambda store: store.journal(run.experiment.id))
    heard: set[int] = set()
    for entry in journal:
        if entry.event["event"] == "exited":
            heard.add(entry.event["number"])
        elif entry.event["event"] == "reopened":
            heard.difference_update(entry.event["numbers"])
    for trial in list(run.trials.values()):
        if trial.state in TRIAL_ENDED and trial.number not in heard:
            decisions.tell(run, Exited(trial.number, _TOLD[trial.state]))
