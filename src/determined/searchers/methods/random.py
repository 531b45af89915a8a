"""The search method `random`: trials with hyperparameters that are drawn independently."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from determined.config.blocks.searcher import CONCURRENT_TRIALS
from determined.config.validators import Count, PositiveCount
from determined.searchers.base import Searcher
from determined.searchers.free_running import FreeRunningSearcher
from determined.searchers.method import Method, Outline
from determined.searchers.pool import Pool
from determined.searchers.sources import RandomSource


class RandomSearch(Method):
    """A number of trials with random hyperparameters."""

    to_continue: ClassVar[str] = (
        "give it more trials with --config searcher.max_trials=N, or more to train with searcher.max_length"
    )

    name: Literal["random"]
    max_trials: PositiveCount
    max_concurrent_trials: Count = CONCURRENT_TRIALS

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        return FreeRunningSearcher(RandomSource(space, seed), Pool(self.max_trials, self.max_concurrent_trials))

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        return Outline(self.max_trials, self.max_concurrent_trials)
