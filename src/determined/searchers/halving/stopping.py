"""Successive halving in which a trial that is not among the best at a rung is stopped permanently."""

from __future__ import annotations

from determined.searchers.base import Action, Continue, Stop
from determined.searchers.halving.base import Halving, RungTrial
from determined.searchers.halving.rung import WORST


class StoppingSearcher(Halving):
    """`async_halving` and `adaptive_asha` as in version 0.38: a trial continues if it is in the best share so far."""

    _newcomers_before_equals = True

    def _compare(self, trial: RungTrial) -> list[Action]:
        """Add the result of a trial to the rungs that it reached, and return whether it continues or stops."""
        rungs, first = self._rungs[trial.bracket], trial.rung
        while self._reached(trial):
            rung, value = rungs[trial.rung], self._value(trial)
            index = rung.add(trial.number, value, before_equals=True)
            # The first trials at a rung continue without competition; waiting for others would leave slots unused.
            kept = max(self._share(len(rung)), 1)
            self._note_comparison(trial, index, kept)
            self._add_ended_results(trial.bracket, trial.rung)
            if self._is_last(trial):
                trial.status, trial.finished = "stopped", True
                return [Stop(trial.number, finished=True)]
            # A trial without a metric is never among the best, even if it is the only one at the rung.
            if index >= kept or value == WORST:
                trial.status = "stopped"
                return [Stop(trial.number)]
            trial.rung += 1
            # Entered at once, so that trials that come later wait for its result.
            rungs[trial.rung].enter(trial.number)
        return [Continue(trial.number, self._goal(trial))] if trial.rung > first else []
