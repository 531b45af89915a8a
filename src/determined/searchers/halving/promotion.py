"""Successive halving in which trials pause at rungs and can be promoted later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from determined.searchers.base import Action, Continue, Event, ExitReason, Pause, Stop
from determined.searchers.halving.base import Halving, RungTrial
from determined.searchers.halving.brackets import Bracket
from determined.searchers.halving.rung import WORST
from determined.searchers.pool import Pool
from determined.searchers.sources import TrialSource


class PromotionSearcher(Halving):
    """Halving with `stop_once: false`: at a rung the best share continues; the others pause and may be promoted later.

    A promoted trial gets a place before any new trial. When no more trials can reach a rung, those paused there are
    stopped.
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
        actions = self._process_event(event) + self._close_rungs()
        pausing = {action.number for action in actions if isinstance(action, Pause)}
        # A trial that pauses and is stopped by the same event occupies its place until it has exited.
        self._pool.busy |= pausing & {action.number for action in actions if isinstance(action, Stop)}
        actions += self._refill()
        others = {action.number for action in actions if not isinstance(action, Pause)}
        return [action for action in actions if not (isinstance(action, Pause) and action.number in others)]

    def _compare(self, trial: RungTrial) -> list[Action]:
        """Add the result of a trial that reached its rung, and return whether it stops, continues or pauses."""
        if not self._reached(trial):
            return []
        bracket, rung = trial.bracket, trial.rung
        trial.status, trial.finished = "paused", self._is_last(trial)
        self._add_result(trial.number, bracket, rung, self._value(trial))
        self._add_ended_results(bracket, rung)
        if trial.finished:
            if trial.number in self._promoted:  # its report reached several rungs at once
                self._promoted.remove(trial.number)
            trial.status = "stopped"
            return [Stop(trial.number, finished=True)]
        if self._promoted[:1] == [trial.number]:  # continue without a pause, unless another was promoted before it
            self._promoted.pop(0)
            trial.status = "running"
            return [Continue(trial.number, self._goal(trial))]
        self._pool.busy.discard(trial.number)
        return [Pause(trial.number)]

    def _add_ended_results(self, bracket: int, rung: int) -> None:
        for number, value in self._rungs[bracket][rung].due():
            self._add_result(number, bracket, rung, value)

    def _add_result(self, number: int, bracket: int, rung: int, value: float) -> None:
        """Add a result to a rung, and promote a trial if the result enlarges or enters the best share."""
        place = self._rungs[bracket][rung]
        index = place.add(number, value, before_equals=False)
        share = self._share(len(place))
        if number in self._trials:
            self._note_comparison(self._trials[number], index, share)
        if rung == len(self._rungs[bracket]) - 1:
            return
        winner = self._waiting_at(bracket, rung, index) if index < share else None
        if winner is None and share > self._share(len(place) - 1):
            index = share - 1
            winner = self._waiting_at(bracket, rung, index)
        if winner is not None:
            if winner.number != number:  # a trial that paused earlier is now among the best
                self._note_comparison(winner, index, share)
            self._promote(winner)

    def _waiting_at(self, bracket: int, rung: int, index: int) -> RungTrial | None:
        """Return the trial at this index of a rung's order if it is paused there and has a metric, else None."""
        place = self._rungs[bracket][rung]
        trial = self._trials.get(place.number_at(index))
        waits = trial is not None and trial.status == "paused" and trial.rung == rung
        return trial if waits and place.value_at(index) != WORST else None

    def _promote(self, trial: RungTrial) -> None:
        """Move a trial to the next rung."""
        trial.rung += 1
        self._rungs[trial.bracket][trial.rung].enter(trial.number)
        reached = self._reached(trial)  # if validations are rare, one report may reach several rungs
        trial.finished = reached and self._is_last(trial)
        # A trial that reached the next rung as well is compared there below, and needs no place in between.
        if trial.finished or not reached:
            trial.status = "promoted"
            self._promoted.append(trial.number)
        if reached:
            self._add_result(trial.number, trial.bracket, trial.rung, self._value(trial))

    def _refill(self) -> list[Action]:
        """Continue promoted trials before new ones are created."""
        actions: list[Action] = []
        # A copy, because the loop removes entries.
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

    def _exit(self, trial: RungTrial, reason: ExitReason) -> None:
        if trial.number in self._promoted:
            self._promoted.remove(trial.number)
        super()._exit(trial, reason)

    def _close_rungs(self) -> list[Action]:
        """Stop trials that are paused at rungs which no other trial can reach any more, from the lowest rung up."""
        # A trial without a result may still turn out as InvalidHP, and its replacement may enter any bracket.
        if self._pool.left > 0 or any(rungs[0].expects_results for rungs in self._rungs):
            self._closed.clear()
            return []
        return [stop for bracket in range(len(self._brackets)) for stop in self._close_bracket(bracket)]

    def _close_bracket(self, bracket: int) -> Iterator[Action]:
        """Close the rungs of one bracket."""
        rungs = self._rungs[bracket]
        for rung, place in enumerate(rungs[:-1]):
            if place.expects_results:
                return
            # Remembered, so that a rung is not searched again after every event.
            if (bracket, rung) in self._closed:
                continue
            above = rungs[rung + 1]
            # No trial was ever promoted from here.
            if not above.expects_results and len(above) == 0:
                self._promote_best(bracket, rung)
            for index in range(len(place)):
                trial = self._trials.get(place.number_at(index))
                if trial is not None and trial.status == "paused" and trial.rung == rung:
                    trial.status = "stopped"
                    yield Stop(trial.number)
            self._closed.add((bracket, rung))

    def _promote_best(self, bracket: int, rung: int) -> None:
        """Promote the best paused trial of a rung, so that at least one trial reaches the last rung.

        With few trials the share of a rung can be less than one.
        """
        for index in range(len(self._rungs[bracket][rung])):
            trial = self._waiting_at(bracket, rung, index)
            if trial is not None:
                self._note_comparison(trial, index, 1)
                self._promote(trial)
                return

    def state(self) -> dict[str, Any]:
        return {**super().state(), "promoted": list(self._promoted)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._promoted = list(state["promoted"])
        # Not part of the state: it only saves work, and is computed again.
        self._closed.clear()
