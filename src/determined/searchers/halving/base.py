"""The common base of both forms of successive halving: brackets, rungs, the position of trials, and progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

from determined.searchers.base import Action, Create, Event, Exited, ExitReason, Extended, Reopened
from determined.searchers.decision_reason import Comparison
from determined.searchers.halving.brackets import Bracket, next_bracket
from determined.searchers.halving.rung import WORST, Rung
from determined.searchers.newest_validation import NewestValidation
from determined.searchers.pool import Pool
from determined.searchers.sources import Outcome, TrialSource

# paused: has a result at its rung and waits; promoted: paused, but will continue when a slot of the pool is free;
# stopped: a `Stop` was returned, and the trial has not exited yet.
Status = Literal["running", "paused", "promoted", "stopped"]


@dataclass
class RungTrial:
    """A trial that has not ended. `rung` is the rung that it is training for, or at which it was paused or stopped."""

    number: int
    bracket: int
    rung: int = 0
    status: Status = "running"
    finished: bool = False
    latest: NewestValidation = field(default_factory=NewestValidation)


class Halving(ABC):
    """A search by successive halving. All brackets share one pool; the bracket of a trial follows from its number.

    In every rung, results are processed in the order in which trials entered it, provided that the caller delays
    results according to `waits_for`. Decisions then depend neither on the speed of trials nor on the number of
    concurrent ones.
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
        self._divisor = Fraction(divisor)  # exact: a float division could make a share off by one
        self._sign = 1 if smaller_is_better else -1
        self.comparisons: list[Comparison] = []
        self._trials: dict[int, RungTrial] = {}
        self._rungs = [[Rung() for _ in bracket.thresholds] for bracket in brackets]
        self._created = [0] * len(brackets)
        self._spent = 0.0  # time units used by trials that have ended

    def start(self) -> list[Action]:
        return self._refill()

    def on_event(self, event: Event) -> list[Action]:
        return self._process_event(event) + self._refill()

    def _process_event(self, event: Event) -> list[Action]:
        """Process an event and return the actions for its trial."""
        self.comparisons = []
        if isinstance(event, Extended):
            self._pool.extend(event.max_trials)
        elif isinstance(event, Reopened):
            return []  # the decision of a comparison is final
        elif (trial := self._trials.get(event.number)) is None:
            return []
        elif isinstance(event, Exited):
            self._exit(trial, event.reason)
        elif trial.status == "running":
            trial.latest.record(event)
            return self._compare(trial)
        return []

    @abstractmethod
    def _compare(self, trial: RungTrial) -> list[Action]:
        """Return the actions for a trial after a validation."""

    def _note_comparison(self, trial: RungTrial, index: int, kept: int) -> None:
        """Record the place of a trial at its rung, where the best `kept` results are promoted."""
        results = len(self._rungs[trial.bracket][trial.rung])
        latest = trial.latest
        self.comparisons.append(
            Comparison(trial.number, latest.time, latest.metric, trial.bracket, trial.rung, index + 1, results, kept)
        )

    def _add_ended_results(self, bracket: int, rung: int) -> None:
        """Add the results of trials that ended on their way to a rung, if it is their turn."""
        place = self._rungs[bracket][rung]
        for number, value in place.due():
            place.add(number, value, before_equals=self._newcomers_before_equals)

    def _exit(self, trial: RungTrial, reason: ExitReason) -> None:
        """Process the end of a trial: update the pool and the rungs, and report the outcome to the source."""
        del self._trials[trial.number]
        # A trial that was stopped already has its result, which remains valid.
        invalid = reason == "invalid_hp" and trial.status != "stopped"
        self._pool.exit(trial.number, invalid=invalid)
        self._spent += trial.latest.time or 0.0
        rungs = self._rungs[trial.bracket]
        if invalid:
            # An invalid trial is replaced, so its results must not count a second time.
            for rung in rungs:
                rung.forget(trial.number)
        elif trial.status in ("running", "promoted") and not trial.finished:
            rungs[trial.rung].leave(trial.number, self._value(trial) if reason == "completed" else WORST)
        # The end of this trial may have been what others waited for, at any rung.
        for position in range(len(rungs)):
            self._add_ended_results(trial.bracket, position)
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
        """Create trials until a limit of the pool is reached."""
        actions: list[Action] = []
        while self._pool.left > 0 and self._pool.has_room:
            actions.append(self._create())
        return actions

    def _create(self) -> Create:
        """Create a trial in the next bracket."""
        number = self._pool.create()
        bracket = next_bracket(self._brackets, self._created)
        self._created[bracket] += 1
        self._trials[number] = RungTrial(number, bracket)
        self._rungs[bracket][0].enter(number)
        drawn = self._source.draw(number)
        rungs = tuple(float(time) for time in self._brackets[bracket].thresholds)
        return Create(number, drawn.request_id, drawn.hparams, drawn.seed, rungs[0], bracket, rungs)

    def _value(self, trial: RungTrial) -> float:
        """Return the metric of a trial with its sign changed so that smaller is better; WORST without a metric."""
        metric = trial.latest.metric
        return WORST if metric is None else self._sign * metric

    def _goal(self, trial: RungTrial) -> float:
        """Return the time of the trial's rung."""
        return float(self._brackets[trial.bracket].thresholds[trial.rung])

    def _reached(self, trial: RungTrial) -> bool:
        return trial.latest.time is not None and trial.latest.time >= self._goal(trial)

    def _is_last(self, trial: RungTrial) -> bool:
        return trial.rung == len(self._rungs[trial.bracket]) - 1

    def _share(self, count: int) -> int:
        """Return how many of this number of results are promoted, rounded down."""
        return count // self._divisor

    def waits_for(self, number: int) -> frozenset[int]:
        trial = self._trials.get(number)
        return frozenset() if trial is None else self._rungs[trial.bracket][trial.rung].waits_for(number)

    def progress(self, fractions: Mapping[int, float]) -> float:
        """Return the time units spent, as a fraction of the spent and the expected ones."""
        if self.finished:
            return 1.0
        spent, to_come = self._spent, 0.0
        for trial in self._trials.values():
            goal = self._goal(trial)
            # Progress that a program reports refers to the complete training, and not to the next rung.
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
        """Return the average number of time units that a trial trains after this rung."""
        times = self._brackets[bracket].thresholds[rung:]
        steps = pairwise(times)
        return sum(
            # One in `divisor` is promoted at each rung. Only an estimate, so floats are good enough here.
            (after - before) / float(self._divisor) ** (position + 1)
            for position, (before, after) in enumerate(steps)
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
            number: RungTrial(number, bracket, rung, status, finished, NewestValidation(time, metric))
            for number, bracket, rung, status, finished, time, metric in state["trials"]
        }
        for rungs, saved in zip(self._rungs, state["rungs"], strict=True):
            for rung, plain in zip(rungs, saved, strict=True):
                rung.restore(plain)
