"""What the two forms of successive halving share: brackets, rungs, who is where, and how far the search is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

from determined.searchers.base import Action, Create, Event, Exited, ExitReason, Extended, Reopened
from determined.searchers.brackets import Bracket, next_bracket
from determined.searchers.latest import Latest
from determined.searchers.pool import Pool
from determined.searchers.rung import WORST, Rung
from determined.searchers.sources import Outcome, TrialSource

# paused: compared, and waiting; promoted: paused, but it has won and waits for a place; stopped: told to end.
Status = Literal["running", "paused", "promoted", "stopped"]


@dataclass
class Contender:
    """One trial that is not over. `rung` is the rung that it is on its way to, or at which it was paused or stopped."""

    number: int
    bracket: int
    rung: int = 0
    status: Status = "running"
    finished: bool = False
    latest: Latest = field(default_factory=Latest)


class Halving(ABC):
    """All brackets share one pool of places. To which bracket a trial belongs follows from its number alone.

    In every rung results are taken in the order in which trials came to it, as far as whoever delivers them waits for
    `waits_for`. Then no decision depends on how fast a trial was or how many run at once.
    """

    _newcomers_before_equals: ClassVar[bool]

    def __init__(
        self,
        source: TrialSource,
        pool: Pool,
        brackets: Sequence[Bracket],
        *,
        divisor: float,
        smaller_is_better: bool,
    ) -> None:
        self._source, self._pool, self._brackets = source, pool, brackets
        self._divisor = Fraction(divisor)
        self._sign = 1 if smaller_is_better else -1
        self._trials: dict[int, Contender] = {}
        self._rungs = [[Rung() for _ in bracket.thresholds] for bracket in brackets]
        self._created = [0] * len(brackets)
        self._spent = 0.0  # units of time that trials took which are over

    def start(self) -> list[Action]:
        return self._refill()

    def on_event(self, event: Event) -> list[Action]:
        return self._take(event) + self._refill()

    def _take(self, event: Event) -> list[Action]:
        """What follows for the trial of the event."""
        if isinstance(event, Extended):
            self._pool.extend(event.max_trials)
        elif isinstance(event, Reopened):
            return []  # what was compared is over
        elif (trial := self._trials.get(event.number)) is None:
            return []
        elif isinstance(event, Exited):
            self._exit(trial, event.reason)
        elif trial.status == "running":
            trial.latest.take(event)
            return self._compare(trial)
        return []

    @abstractmethod
    def _compare(self, trial: Contender) -> list[Action]:
        """What becomes of a trial after a report."""

    def _settle(self, bracket: int, rung: int) -> None:
        """Count the results of trials that left, if it is their turn."""
        place = self._rungs[bracket][rung]
        for number, value in place.due():
            place.add(number, value, before_equals=self._newcomers_before_equals)

    def _exit(self, trial: Contender, reason: ExitReason) -> None:
        del self._trials[trial.number]
        invalid = reason == "invalid_hp" and trial.status != "stopped"
        self._pool.exit(trial.number, invalid=invalid)
        self._spent += trial.latest.time or 0.0
        rungs = self._rungs[trial.bracket]
        if invalid:
            for rung in rungs:
                rung.forget(trial.number)
        elif trial.status in ("running", "promoted") and not trial.finished:
            rungs[trial.rung].leave(trial.number, self._value(trial) if reason == "completed" else WORST)
        for position in range(len(rungs)):
            self._settle(trial.bracket, position)
        ended_by_itself = trial.status == "running" and reason == "completed"
        self._source.learn(
            trial.number,
            Outcome(
                value=trial.latest.metric,
                time=trial.latest.time,
                reached_the_end=trial.finished or ended_by_itself,
                failed=reason != "completed" and trial.status != "stopped",
            ),
        )

    def _refill(self) -> list[Action]:
        actions: list[Action] = []
        while self._pool.left > 0 and self._pool.has_room:
            actions.append(self._create())
        return actions

    def _create(self) -> Create:
        number = self._pool.create()
        bracket = next_bracket(self._brackets, self._created)
        self._created[bracket] += 1
        self._trials[number] = Contender(number, bracket)
        self._rungs[bracket][0].enter(number)
        drawn = self._source.draw(number)
        rungs = tuple(float(time) for time in self._brackets[bracket].thresholds)
        return Create(number, drawn.request_id, drawn.hparams, drawn.seed, rungs[0], bracket, rungs)

    def _value(self, trial: Contender) -> float:
        metric = trial.latest.metric
        return WORST if metric is None else self._sign * metric

    def _goal(self, trial: Contender) -> float:
        return float(self._brackets[trial.bracket].thresholds[trial.rung])

    def _reached(self, trial: Contender) -> bool:
        return trial.latest.time is not None and trial.latest.time >= self._goal(trial)

    def _is_last(self, trial: Contender) -> bool:
        return trial.rung == len(self._rungs[trial.bracket]) - 1

    def _share(self, count: int) -> int:
        """How many of so many results are let through, rounded down."""
        return count // self._divisor

    def waits_for(self, number: int) -> frozenset[int]:
        trial = self._trials.get(number)
        return frozenset() if trial is None else self._rungs[trial.bracket][trial.rung].waits_for(number)

    def progress(self, fractions: Mapping[int, float]) -> float:
        """Units of time spent, as a share of those and what is expected to come."""
        if self.finished:
            return 1.0
        spent, to_come = self._spent, 0.0
        for trial in self._trials.values():
            goal = self._goal(trial)
            reported = fractions.get(trial.number, 0.0) * self._brackets[trial.bracket].thresholds[-1]
            time = min(max(trial.latest.time or 0.0, reported, 0.0), goal)
            spent += time
            if trial.status in ("running", "promoted"):
                to_come += goal - time + self._expected_beyond(trial.bracket, trial.rung)
        planned = sum(bracket.trials for bracket in self._brackets)
        for position, bracket in enumerate(self._brackets):
            cost = bracket.thresholds[0] + self._expected_beyond(position, 0)
            to_come += cost * self._pool.left * bracket.trials / planned
        return spent / (spent + to_come) if spent else 0.0

    def _expected_beyond(self, bracket: int, rung: int) -> float:
        """Units that a trial on its way to a rung will take after it, on average."""
        times = self._brackets[bracket].thresholds[rung:]
        steps = pairwise(times)
        return sum(
            (after - before) / float(self._divisor) ** (position + 1) for position, (before, after) in enumerate(steps)
        )

    @property
    def finished(self) -> bool:
        return self._pool.finished

    @property
    def failure(self) -> str | None:
        return self._pool.failure

    def state(self) -> dict[str, Any]:
        return {
            "pool": self._pool.state(),
            "source": self._source.state(),
            "created": list(self._created),
            "spent": self._spent,
            "trials": [
                [trial.number, trial.bracket, trial.rung, trial.status, trial.finished, latest.time, latest.metric]
                for trial in self._trials.values()
                for latest in [trial.latest]
            ],
            "rungs": [[rung.state() for rung in rungs] for rungs in self._rungs],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._pool.restore(state["pool"])
        self._source.restore(state["source"])
        self._created, self._spent = list(state["created"]), state["spent"]
        self._trials = {
            number: Contender(number, bracket, rung, status, finished, Latest(time, metric))
            for number, bracket, rung, status, finished, time, metric in state["trials"]
        }
        for rungs, saved in zip(self._rungs, state["rungs"], strict=True):
            for rung, plain in zip(rungs, saved, strict=True):
                rung.restore(plain)
