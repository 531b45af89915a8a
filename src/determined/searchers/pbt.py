"""Population based training: after every round, the worst trials are replaced by perturbed copies of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.config.secrets.fixed_secrets import mask_fixed
from determined.errors import InvalidConfigurationException
from determined.searchers.base import (
    Action,
    Continue,
    Create,
    Event,
    Exited,
    Extended,
    Pause,
    Reopened,
    Stop,
    Validated,
)
from determined.searchers.decision_reason import Comparison
from determined.searchers.explore import explore
from determined.searchers.halving.rung import WORST
from determined.searchers.newest_validation import NewestValidation
from determined.searchers.sources import with_identity


def replaced_each_round(population: int, truncate_fraction: float) -> int:
    """Return how many trials of the population are replaced after each round."""
    # From the decimal text of the fraction: 0.29 of 100 must be 29, but 0.29 as a binary float gives 28.999...
    return math.floor(Fraction(str(truncate_fraction)) * population)


@dataclass
class _Member:
    """A trial of the population. Its time starts at its creation in the round `birth`."""

    number: int
    birth: int
    hparams: dict[str, Any]
    alive: bool = True
    measured: bool = False  # has its result of the present round
    latest: NewestValidation = field(default_factory=NewestValidation)


class PbtSearcher:
    """A population based search. Rounds are barriers: a trial pauses at the end of one until all have finished it.

    Paused trials hold no slots.
    """

    failure: str | None = None

    def __init__(
        self,
        space: dict[str, Any],
        seed: int,
        *,
        population: int,
        rounds: int,
        length: int,
        truncate_fraction: float,
        resample_probability: float,
        perturb_factor: float,
        smaller_is_better: bool,
    ) -> None:
        self._space, self._stream = space, RandomStream(seed)
        self._population, self._rounds, self._length = population, rounds, length
        self._replaced = replaced_each_round(population, truncate_fraction)
        self._resample_probability, self._perturb_factor = resample_probability, perturb_factor
        self._sign = 1 if smaller_is_better else -1
        self.comparisons: list[Comparison] = []
        self._created = 0
        self._round = 0
        self._members: dict[int, _Member] = {}
        self._leaving: set[int] = set()  # stopped by the search, but not exited yet

    def start(self) -> list[Action]:
        return [self._create(None) for _ in range(self._population)]

    def on_event(self, event: Event) -> list[Action]:
        self.comparisons = []
        if isinstance(event, Extended):
            raise InvalidConfigurationException(
                message="the search cannot be extended: pbt has a population and rounds, no max_trials"
            )
        if isinstance(event, Reopened):
            return []  # the decision of a comparison is final
        if isinstance(event, Exited):
            self._leaving.discard(event.number)
        member = self._members.get(event.number)
        if member is None or not member.alive:
            return []
        if isinstance(event, Exited):
            self._note_exit(member, event)
            return self._end_round() if self._round_is_over else []
        return self._note_report(member, event)

    def _note_report(self, member: _Member, report: Validated) -> list[Action]:
        """Record a validation. At the end of its round the trial pauses, or, if it is the last one, the round ends."""
        if member.measured:
            return []
        member.latest.record(report)
        if member.latest.time is None or member.latest.time < self._goal(member):
            return []
        member.measured = True
        return self._end_round(reporter=member) if self._round_is_over else [Pause(member.number)]

    def _note_exit(self, member: _Member, event: Exited) -> None:
        """Record that a trial has ended.

        Unless it completed or already has its result of this round, its metric is discarded.
        """
        member.alive = False
        # A metric of an unfinished round is not comparable with those of complete ones.
        if not member.measured and event.reason != "completed":
            member.latest.metric = None
        member.measured = True

    @property
    def _round_is_over(self) -> bool:
        return all(member.measured for member in self._members.values())

    def _end_round(self, reporter: _Member | None = None) -> list[Action]:
        """Replace the worst trials and start the next round, or finish the search after the last one.

        `reporter` is the trial whose report ended the round and which still holds its slots; all other live trials are
        paused.
        """
        # By number among equal values, so that the order of reports does not matter.
        ranked = sorted(self._members.values(), key=lambda member: (self._value(member), member.number))
        self._note_comparisons(ranked)
        if self._round == self._rounds - 1:
            self._members.clear()
            return [self._stop(member, finished=True) for member in ranked if member.alive]
        losers = [
            member for place, member in enumerate(ranked) if not member.alive or place >= len(ranked) - self._replaced
        ]
        # In the order of the ranking, which decides the parents below.
        survivors = [member for member in ranked if member not in losers]
        if not survivors:
            self.failure = f"no trial of round {self._round + 1} of {self._rounds} is left to continue from"
        # A trial without a metric may survive, but is never copied.
        parents = [member for member in survivors if self._value(member) != WORST][: max(self._replaced, 1)]
        actions: list[Action] = [self._stop(member) for member in losers if member.alive]
        for member in losers:
            del self._members[member.number]
        if not survivors:
            return actions
        self._round += 1
        if reporter in parents and losers:
            actions.append(Pause(reporter.number))  # pausing makes it save the checkpoint that its copies start from
        # The best parent is copied first; without parents new trials are drawn at random.
        actions += [self._create(parents[i % len(parents)] if parents else None) for i in range(len(losers))]
        for member in survivors:
            member.measured = False
            actions.append(Continue(member.number, self._goal(member)))
        return actions

    def _note_comparisons(self, ranked: list[_Member]) -> None:
        """Record the places of all trials at the end of a round."""
        kept = len(ranked) - self._replaced
        self.comparisons = [
            Comparison(m.number, m.latest.time, m.latest.metric, 0, self._round, index + 1, len(ranked), kept, "round")
            for index, m in enumerate(ranked)
        ]

    def _stop(self, member: _Member, *, finished: bool = False) -> Stop:
        self._leaving.add(member.number)
        return Stop(member.number, finished)

    def _create(self, parent: _Member | None) -> Create:
        """Create a trial with random hyperparameters, or as a perturbed copy of a parent."""
        number, self._created = self._created, self._created + 1
        hparams = (
            sample_hyperparameters(self._space, self._stream)
            if parent is None
            else explore(
                self._space,
                parent.hparams,
                self._stream,
                resample_probability=self._resample_probability,
                perturb_factor=self._perturb_factor,
            )
        )
        drawn = with_identity(hparams, self._stream)
        member = self._members[number] = _Member(number, self._round, hparams)
        return Create(
            number,
            drawn.request_id,
            drawn.hparams,
            drawn.seed,
            goal=self._goal(member),
            rungs=tuple(float(self._length * (done + 1)) for done in range(self._rounds - self._round)),
            source=None if parent is None else parent.number,
        )

    def _goal(self, member: _Member) -> float:
        """Return the time at which a trial finishes the present round."""
        # A copy counts its time from its own creation.
        return float(self._length * (self._round - member.birth + 1))

    def _value(self, member: _Member) -> float:
        """Return the metric of a trial with its sign changed so that smaller is better; WORST without a metric."""
        return WORST if member.latest.metric is None else self._sign * member.latest.metric

    def waits_for(self, number: int) -> frozenset[int]:
        return frozenset()

    def progress(self, fractions: Mapping[int, float]) -> float:
        if self.finished or not self._members:
            return 1.0 if self._created else 0.0
        parts = [1.0 if member.measured else self._part(member) for member in self._members.values()]
        return (self._round + sum(parts) / len(parts)) / self._rounds

    def _part(self, member: _Member) -> float:
        """Return the part of the present round that a trial has done, from 0 to 1."""
        begun = self._goal(member) - self._length
        return min(max(((member.latest.time or 0.0) - begun) / self._length, 0.0), 1.0)

    @property
    def finished(self) -> bool:
        return self._created > 0 and not self._members and not self._leaving

    def state(self) -> dict[str, Any]:
        return {
            "stream": self._stream.state(),
            "created": self._created,
            "round": self._round,
            "failure": self.failure,
            "leaving": sorted(self._leaving),
            "members": [
                [
                    m.number,
                    m.birth,
                    mask_fixed(m.hparams, self._space),  # secrets; `explore` takes fixed values from the space
                    m.alive,
                    m.measured,
                    m.latest.time,
                    m.latest.metric,
                ]
                for m in self._members.values()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._stream.restore(state["stream"])
        self._created, self._round, self.failure = state["created"], state["round"], state["failure"]
        self._leaving = set(state["leaving"])
        self._members = {
            number: _Member(number, birth, hparams, alive, measured, NewestValidation(time, metric))
            for number, birth, hparams, alive, measured, time, metric in state["members"]
        }
