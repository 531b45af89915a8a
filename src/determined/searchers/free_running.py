"""Searches in which every trial runs to its end: `single`, `random`, `grid`, and Optuna without rungs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from determined.searchers.base import Action, Create, Event, Exited, Extended, Reopened, Validated
from determined.searchers.decision_reason import Comparison
from determined.searchers.newest_validation import NewestValidation
from determined.searchers.pool import Pool
from determined.searchers.sources import Outcome, TrialSource


class FreeRunningSearcher:
    """Creates trials up to the limits of its pool and never stops one."""

    comparisons: tuple[Comparison, ...] = ()

    def __init__(self, source: TrialSource, pool: Pool) -> None:
        self._source, self._pool = source, pool
        self._trials: dict[int, NewestValidation] = {}

    def start(self) -> list[Action]:
        return self._refill()

    def on_event(self, event: Event) -> list[Action]:
        if isinstance(event, Extended):
            self._pool.extend(event.max_trials)
        elif isinstance(event, Reopened):
            self._reopen(event.numbers)
        # Repeated after a crash, or from a trial that has ended: the searcher knows its outcome already.
        elif event.number not in self._trials:
            return []
        elif isinstance(event, Validated):
            self._trials[event.number].record(event)
        else:
            self._exit(event)
        return self._refill()

    def _exit(self, event: Exited) -> None:
        """Count a trial as ended and report its outcome to the source."""
        latest = self._trials.pop(event.number)
        self._pool.exit(event.number, invalid=event.reason == "invalid_hp")
        ended_well = event.reason == "completed"
        self._source.learn(event.number, Outcome(latest.metric, latest.time, ended_well, not ended_well))

    def _reopen(self, numbers: Iterable[int]) -> None:
        """Continue trials that have ended. Trials that the searcher still counts as running are unaffected.

        That happens if a cancellation was never passed to the searcher.
        """
        for number in numbers:
            if number not in self._trials:
                self._trials[number] = NewestValidation()
                self._pool.reopen(number)

    def _refill(self) -> list[Action]:
        """Create trials until a limit of the pool is reached."""
        actions: list[Action] = []
        while self._pool.left > 0 and self._pool.has_room:
            number = self._pool.create()
            self._trials[number] = NewestValidation()
            drawn = self._source.draw(number)
            actions.append(Create(number, drawn.request_id, drawn.hparams, drawn.seed, goal=None))
        return actions

    def waits_for(self, number: int) -> frozenset[int]:
        return frozenset()

    def progress(self, fractions: Mapping[int, float]) -> float:
        running = sum(min(max(fractions.get(number, 0.0), 0.0), 1.0) for number in self._trials)
        return min((self._pool.done + running) / self._pool.max_trials, 1.0)

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
            "trials": [[number, latest.time, latest.metric] for number, latest in self._trials.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._pool.restore(state["pool"])
        self._source.restore(state["source"])
        self._trials = {number: NewestValidation(time, metric) for number, time, metric in state["trials"]}
