"""The search method `async_halving`: successive halving in one bracket."""

from __future__ import annotations

from typing import Any, Literal

from determined.config.blocks.searcher import CONCURRENT_TRIALS, Divisor
from determined.config.validators import Count, FilledText, Flag, PositiveCount
from determined.searchers.base import Searcher
from determined.searchers.brackets import Bracket
from determined.searchers.method import Method, Outline
from determined.searchers.rung_search import one_bracket, rung_outline, rung_searcher
from determined.searchers.sources import RandomSource


class AsyncHalving(Method):
    """Successive halving: trials are compared at rungs, and only the best continue.

    With `stop_once` the other trials are stopped permanently; without it they are paused with a checkpoint and can be
    promoted later. Release 0.38 of Determined has no such setting.
    """

    name: Literal["async_halving"]
    max_trials: PositiveCount
    num_rungs: PositiveCount
    max_time: PositiveCount
    time_metric: FilledText
    divisor: Divisor = 4
    max_concurrent_trials: Count = CONCURRENT_TRIALS
    stop_once: Flag = True

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        return rung_searcher(self, RandomSource(space, seed), self._brackets(), stop_once=self.stop_once)

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        return rung_outline(
            self,
            self._brackets(),
            slots=slots,
            validation_period=validation_period,
            could_promote=self.stop_once,
        )

    def _brackets(self) -> list[Bracket]:
        return [one_bracket(self, self.max_time, self.num_rungs)]
