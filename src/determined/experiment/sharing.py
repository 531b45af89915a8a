"""Share slots with other experiments: announce the demand and release preempted slots."""

from __future__ import annotations

from determined.experiment import deciding
from determined.experiment.asking import ask_to_end
from determined.experiment.running import Running
from determined.experiment.trials import LiveTrial


def share(run: Running) -> None:
    """Announce how many slots could be used now.

    Trials on preempted slots are asked to save and exit; they resume later.
    """
    run.engine.want(_wanted(run))
    for key in run.engine.taken_back():
        _ask_to_leave(run, run.by_key[key])
    if run.engine.short:
        for trial in list(run.by_key.values()):
            if trial.at_goal is not None and _awaits_a_slot(run, trial):
                _ask_to_leave(run, trial)


def _wanted(run: Running) -> int:
    """Return how many slots the running trials and those ready to start need."""
    need, most = run.settings.slots_per_trial, run.slot_limit
    over = run.intent is not None or run.failure is not None
    waiting = 0 if over else sum(trial.may_start for trial in run.live())
    wanted = need * (len(run.by_key) + waiting)
    if most is None:
        return wanted
    return max(need * len(run.by_key), min(wanted, most - most % need))  # a lowered limit does not stop running trials


def _awaits_a_slot(run: Running, trial: LiveTrial) -> bool:
    """Return whether a trial at its goal occupies a slot that the trial it waits for needs."""
    return any(other.process is None for other in deciding.awaited(run, trial))


def _ask_to_leave(run: Running, trial: LiveTrial) -> None:
    """Ask a trial to pause, unless another request was made before."""
    if trial.process is not None and trial.process.asked is None:
        ask_to_end(run, trial, "pause")
