"""Halving in which a trial that is not among the best at a rung ends there for good."""

from __future__ import annotations

from determined.searchers.base import Action, Continue, Stop
from determined.searchers.halving import Contender, Halving
from determined.searchers.rung import WORST


class StoppingSearcher(Halving):
    """`async_halving` and `adaptive_asha` as of 0.38: a newcomer is let through if it is in the best share so far."""

    _newcomers_before_equals = True

    def _compare(self, trial: Contender) -> list[Action]:
        rungs, first = self._rungs[trial.bracket], trial.rung
        while self._reached(trial):
            rung, value = rungs[trial.rung], self._value(trial)
            index = rung.add(trial.number, value, before_equals=True)
            kept = max(self._share(len(rung)), 1)
            self._settle(trial.bracket, trial.rung)
            if self._is_last(trial):
                trial.status, trial.finished = "stopped", True
                return [Stop(trial.number, finished=True)]
            # Without a number a trial is never among the best, even where it is the only one.
            if index >= kept or value == WORST:
                trial.status = "stopped"
                return [Stop(trial.number)]
            trial.rung += 1
            rungs[trial.rung].enter(trial.number)
        return [Continue(trial.number, self._goal(trial))] if trial.rung > first else []
