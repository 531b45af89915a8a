"""The settings and the behaviour that the search methods of successive halving share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from determined.config.blocks.searcher import CONCURRENT_TRIALS, Divisor
from determined.config.validators import Count, FilledText, Flag, PositiveCount
from determined.searchers.base import Searcher
from determined.searchers.halving.brackets import Bracket
from determined.searchers.halving.rung_search import rung_outline, rung_searcher
from determined.searchers.method import Method, Outline
from determined.searchers.sources import RandomSource


class SuccessiveHalving(Method):
    """A search that compares random trials at rungs; a subclass chooses the brackets."""

    max_trials: PositiveCount
    max_time: PositiveCount
    time_metric: FilledText
    divisor: Divisor = 4
    max_concurrent_trials: Count = CONCURRENT_TRIALS
    stop_once: Flag = True

    @abstractmethod
    def brackets(self) -> list[Bracket]:
        """Return the brackets, each with the rungs at which its trials are compared."""

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        return rung_searcher(self, RandomSource(space, seed), self.brackets(), stop_once=self.stop_once)

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        return rung_outline(
            self,
            self.brackets(),
            slots=slots,
            validation_period=validation_period,
            could_promote=self.stop_once,
        )
