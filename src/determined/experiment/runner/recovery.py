"""Recovery: reconcile exits and decisions that the previous runner did not process."""

from __future__ import annotations

from determined.experiment.runner import decisions
from determined.experiment.runner.reports import read_reports
from determined.experiment.runner.runner_state import RunnerState
from determined.searchers.base import Exited, ExitReason
from determined.store.states import TrialState

_EXIT_REASONS: dict[TrialState, ExitReason] = {
    "COMPLETED": "completed",
    "STOPPED_EARLY": "completed",
    "INVALID_HP": "invalid_hp",
    "CANCELED": "canceled",
    "ERROR": "errored",
}


def recover(run: RunnerState) -> None:
    """Reconcile all trials with the store after the previous runner has ended.

    A trial at its goal whose work is not saved is run to the goal again before a decision is made.
    """
    # First: an experiment that was ending must not start trials again.
    decisions.fail_if_pointless(run)
    if run.failure is not None:
        return  # the experiment is ending: no further decisions
    _report_ended(run)
    for trial in run.live():
        if trial.has_ended:
            continue  # by a decision about a trial before it
        read_reports(run, trial)
        # The trial could not continue from a step that no checkpoint contains.
        is_saved = run.checkpoints.holds(trial.id, trial.observed.last_step)
        if trial.final_decision is not None and is_saved:
            decisions.close(run, trial)
        elif not is_saved:
            trial.repeat_to_goal()


def _report_ended(run: RunnerState) -> None:
    """Report ended trials to the searcher that were never reported to it.

    This also allows a canceled search to be extended: it continues without the trials that were canceled.
    """
    journal = run.query(lambda store: store.journal(run.experiment.id))
    reported: set[int] = set()
    for entry in journal:
        if entry.event["event"] == "exited":
            reported.add(entry.event["number"])
        # Reopened trials run again, so their next exit is reported.
        elif entry.event["event"] == "reopened":
            reported.difference_update(entry.event["numbers"])
    for trial in list(run.trials.values()):
        if trial.has_ended and trial.number not in reported:
            decisions.report_event(run, Exited(trial.number, _EXIT_REASONS[trial.state]))
