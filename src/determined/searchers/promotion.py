"""Halving in which trials pause at rungs, and any of them may be promoted later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from determined.searchers.base import Action, Continue, Event, ExitReason, Pause, Stop
from determined.searchers.brackets import Bracket
from determined.searchers.halving import Contender, Halving
from determined.searchers.pool import Pool
from determined.searchers.rung import WORST
from determined.searchers.sources import TrialSource


class PromotionSearcher(Halving):
    """`stop_once: false`. At a rung the best share goes on; the rest waits, saved, and may be promoted later.

    A promoted trial gets a place before any new one. When nobody can come to a rung any more, those who wait there end.
    """

    _newcomers_before_equals = False

    def __init__(
        self,
        source: TrialSource,
        pool: Pool,
        brackets: Sequence[Bracket],
        *,
        divisor: float,
        smaller_is_better: bool,
    ) -> None:
        super().__init__(source, pool, brackets, divisor=divisor, smaller_is_better=smaller_is_better)
        self._promoted: list[int] = []  # in the order of promotion
        self._closed: set[tuple[int, int]] = set()

    def on_event(self, event: Event) -> list[Action]:
        actions = self._take(event) + self._close_rungs()
        pausing = {action.number for action in actions if isinstance(action, Pause)}
        # One that was to pause and now ends has its place until it is over.
        self._pool.busy |= pausing & {action.number for action in actions if isinstance(action, Stop)}
        actions += self._refill()
        others = {action.number for action in actions if not isinstance(action, Pause)}
        return [action for action in actions if not (isinstance(action, Pause) and action.number in others)]

    def _compare(self, trial: Contender) -> list[Action]:
        if not self._reached(trial):
            return []
        bracket, rung = trial.bracket, trial.rung
        trial.status, trial.finished = "paused", self._is_last(trial)
        self._add_result(trial.number, bracket, rung, self._value(trial))
        self._settle(bracket, rung)
        if trial.finished:
            if trial.number in self._promoted:  # one report was enough for several rungs
                self._promoted.remove(trial.number)
            trial.status = "stopped"
            return [Stop(trial.number, finished=True)]
        if self._promoted[:1] == [trial.number]:  # it goes on where it is, unless another has won before it
            self._promoted.pop(0)
            trial.status = "running"
            return [Continue(trial.number, self._goal(trial))]
        self._pool.busy.discard(trial.number)
        return [Pause(trial.number)]

    def _settle(self, bracket: int, rung: int) -> None:
        for number, value in self._rungs[bracket][rung].due():
            self._add_result(number, bracket, rung, value)

    def _add_result(self, number: int, bracket: int, rung: int, value: float) -> None:
        place = self._rungs[bracket][rung]
        index = place.add(number, value, before_equals=False)
        if rung == len(self._rungs[bracket]) - 1:
            return
        share = self._share(len(place))
        winner = self._waiting_at(bracket, rung, index) if index < share else None
        if winner is None and share > self._share(len(place) - 1):
            winner = self._waiting_at(bracket, rung, share - 1)
        if winner is not None:
            self._promote(winner)

    def _waiting_at(self, bracket: int, rung: int, index: int) -> Contender | None:
        """The trial with that place in the order, if it is there and can be promoted."""
        place = self._rungs[bracket][rung]
        trial = self._trials.get(place.number_at(index))
        waits = trial is not None and trial.status == "paused" and trial.rung == rung
        return trial if waits and place.value_at(index) != WORST else None

    def _promote(self, trial: Contender) -> None:
        trial.rung += 1
        self._rungs[trial.bracket][trial.rung].enter(trial.number)
        reached = self._reached(trial)  # where validations are rare, one report may do for several rungs
        trial.finished = reached and self._is_last(trial)
        if trial.finished or not reached:
            trial.status = "promoted"
            self._promoted.append(trial.number)
        if reached:
            self._add_result(trial.number, trial.bracket, trial.rung, self._value(trial))

    def _refill(self) -> list[Action]:
        actions: list[Action] = []
        for number in list(self._promoted):
            trial = self._trials[number]
            if trial.finished:
                trial.status = "stopped"
                actions.append(Stop(number, finished=True))
            elif self._pool.has_room:
                trial.status = "running"
                self._pool.busy.add(number)
                actions.append(Continue(number, self._goal(trial)))
            else:
                continue
            self._promoted.remove(number)
        return actions + super()._refill()

    def _exit(self, trial: Contender, reason: ExitReason) -> None:
        if trial.number in self._promoted:
            self._promoted.remove(trial.number)
        super()._exit(trial, reason)

    def _close_rungs(self) -> list[Action]:
        """From the bottom up: a rung to which nobody is on the way, and nobody can be any more."""
        # A trial before its first result may be InvalidHP, and its replacement may belong to any bracket.
        if self._pool.left > 0 or any(rungs[0].expects_results for rungs in self._rungs):
            self._closed.clear()
            return []
        return [stop for bracket in range(len(self._brackets)) for stop in self._close_bracket(bracket)]

    def _close_bracket(self, bracket: int) -> Iterator[Action]:
        rungs = self._rungs[bracket]
        for rung, place in enumerate(rungs[:-1]):
            if place.expects_results:
                return
            if (bracket, rung) in self._closed:
                continue
            above = rungs[rung + 1]
            if not above.expects_results and len(above) == 0:
                self._promote_best(bracket, rung)
            for index in range(len(place)):
                trial = self._trials.get(place.number_at(index))
                if trial is not None and trial.status == "paused" and trial.rung == rung:
                    trial.status = "stopped"
                    yield Stop(trial.number)
            self._closed.add((bracket, rung))

    def _promote_best(self, bracket: int, rung: int) -> None:
        """With few trials no share is whole; then the best one goes on, so that somebody reaches the top."""
        for index in range(len(self._rungs[bracket][rung])):
            trial = self._waiting_at(bracket, rung, index)
            if trial is not None:
                self._promote(trial)
                return

    def state(self) -> dict[str, Any]:
        return {**super().state(), "promoted": list(self._promoted)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._promoted = list(state["promoted"])
        self._closed.clear()
