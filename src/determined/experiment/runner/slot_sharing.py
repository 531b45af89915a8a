"""Share slots with other experiments: announce the demand and release preempted slots."""

from __future__ import annotations

from determined.experiment.runner import decisions
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.stopping import request_stop


def share(run: RunnerState) -> None:
    """Announce how many slots could be used now.

    Trials on preempted slots are requested to save and exit; they resume later.
    """
    run.engine.announce_demand(_wanted(run))
    for key in run.engine.preempted_jobs():
        _preempt(run, run.by_key[key])
    if run.engine.wants_more_slots:
        for trial in list(run.by_key.values()):
            if trial.observed.at_goal is not None and _awaits_a_slot(run, trial):
                _preempt(run, trial)


def _wanted(run: RunnerState) -> int:
    """Return how many slots the running trials and those ready to start need."""
    need, most = run.settings.slots_per_trial, run.slot_limit
    over = run.stop_request is not None or run.failure is not None
    # A stopping experiment keeps the slots of trials that save, and asks for no more.
    waiting = 0 if over else sum(trial.may_start for trial in run.live())
    wanted = need * (len(run.by_key) + waiting)
    if most is None:
        return wanted
    # Whole trials only: a rest of slots below the need of one trial would be held without use.
    return max(need * len(run.by_key), min(wanted, most - most % need))  # a lowered limit does not stop running trials


def _awaits_a_slot(run: RunnerState, trial: LiveTrial) -> bool:
    """Return whether a trial at its goal waits for another trial that has no processes and so needs a slot."""
    return any(other.process is None for other in decisions.awaited(run, trial))


def _preempt(run: RunnerState, trial: LiveTrial) -> None:
    """Request that a trial saves and releases its slots, unless another request was made before."""
    if trial.process is not None and trial.process.stopping.request is None:
        request_stop(run, trial, "pause")
