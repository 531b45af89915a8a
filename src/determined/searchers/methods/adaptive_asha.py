"""The search method `adaptive_asha`: several successive halvings with different numbers of rungs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from determined.config import validators
from determined.config.blocks.searcher import CONCURRENT_TRIALS, Divisor
from determined.config.validators import Count, FilledText, Flag, PositiveCount
from determined.searchers.base import Searcher
from determined.searchers.brackets import Bracket, adaptive_brackets
from determined.searchers.method import Method, Outline
from determined.searchers.rung_search import rung_outline, rung_searcher
from determined.searchers.sources import RandomSource


class AdaptiveAsha(Method):
    """Several successive halvings at the same time, from aggressive to conservative.

    `stop_once` as in `async_halving`.
    """

    name: Literal["adaptive_asha"]
    max_trials: PositiveCount
    max_time: PositiveCount
    time_metric: FilledText
    mode: Annotated[
        Literal["aggressive", "standard", "conservative"], validators.choice("aggressive", "standard", "conservative")
    ] = "standard"
    divisor: Divisor = 4
    max_rungs: PositiveCount = 5
    max_concurrent_trials: Count = CONCURRENT_TRIALS
    bracket_rungs: tuple[PositiveCount, ...] = ()
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
        return adaptive_brackets(
            max_time=self.max_time,
            divisor=self.divisor,
            trials=self.max_trials,
            at_once=self.max_concurrent_trials,
            mode=self.mode,
            max_rungs=self.max_rungs,
            bracket_rungs=self.bracket_rungs,
        )
