"""Slots that experiments share: how many this one could use, and what it leaves to others."""

from __future__ import annotations

from determined.experiment import deciding
from determined.experiment.asking import ask_to_end
from determined.experiment.running import Running
from determined.experiment.trials import LiveTrial


def share(run: Running) -> None:
    """Say what could be used now. Trials on slots that others shall have save and leave; they go on later."""
    run.engine.want(_wanted(run))
    for key in run.engine.taken_back():
        _ask_to_leave(run, run.by_key[key])
    if run.engine.short:
        for trial in list(run.by_key.values()):
            if trial.at_goal is not None and _awaits_a_slot(run, trial):
                _ask_to_leave(run, trial)


def _wanted(run: Running) -> int:
    """For the trials at work, and those that would start if there was room."""
    need, most = run.settings.slots_per_trial, run.slot_limit
    over = run.intent is not None or run.failure is not None
    waiting = 0 if over else sum(trial.may_start for trial in run.live())
    wanted = need * (len(run.by_key) + waiting)
    if most is None:
        return wanted
    return max(need * len(run.by_key), min(wanted, most - most % need))  # a limit that was lowered ends no trial


def _awaits_a_slot(run: Running, trial: LiveTrial) -> bool:
    """Whether it stands at its goal, on a slot that a trial needs for which it waits there."""
    return any(other.process is None for other in deciding.awaited(run, trial))


def _ask_to_leave(run: Running, trial: LiveTrial) -> None:
    """One that was asked for something already is about to leave."""
    if trial.process is not None and trial.process.asked is None:
        ask_to_end(run, trial, "pause")
