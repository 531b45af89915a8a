"""The search method `optuna`: hyperparameters that a sampler of Optuna proposes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from determined.config.blocks.searcher import CONCURRENT_TRIALS, Divisor
from determined.config.validators import Count, FilledText, PositiveCount
from determined.errors import Mistake
from determined.searchers.base import Searcher
from determined.searchers.free_running import FreeRunningSearcher
from determined.searchers.halving.brackets import Bracket, most_rungs
from determined.searchers.halving.rung_search import one_bracket, rung_outline, rung_searcher
from determined.searchers.method import Method, Outline
from determined.searchers.optuna_source import OptunaSource
from determined.searchers.pool import Pool

# The rungs of a search that configures none: at most as many as adaptive_asha uses by default.
_MOST_RUNGS = 5


class OptunaSearch(Method):
    """A search with any Optuna sampler; with `max_time` and `time_metric` also with rungs as in `async_halving`."""

    name: Literal["optuna"]
    max_trials: PositiveCount
    sampler: FilledText = "tpe"
    sampler_options: dict[str, Any] = {}
    max_concurrent_trials: Count = CONCURRENT_TRIALS
    max_time: PositiveCount | None = None
    time_metric: FilledText | None = None
    num_rungs: PositiveCount | None = None
    divisor: Divisor = 4

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[Mistake]:
        """Require `max_time` and `time_metric` together."""
        searcher = config["searcher"]
        for given, other in (("max_time", "time_metric"), ("time_metric", "max_time")):
            if given in searcher and other not in searcher:
                yield Mistake(f"searcher.{other}", None, f"missing: {given} is given, and the two go together")
        if "num_rungs" in searcher and "max_time" not in searcher:
            yield Mistake("searcher.num_rungs", None, "there are no rungs without max_time and time_metric")

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        source = OptunaSource(
            space,
            seed,
            sampler=self.sampler,
            options=self.sampler_options,
            smaller_is_better=self.smaller_is_better,
        )
        if brackets := self._brackets():
            return rung_searcher(self, source, brackets, stop_once=True)
        return FreeRunningSearcher(source, Pool(self.max_trials, self.max_concurrent_trials))

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        if brackets := self._brackets():
            return rung_outline(self, brackets, slots=slots, validation_period=validation_period, could_promote=False)
        return Outline(self.max_trials, self.max_concurrent_trials)

    def _brackets(self) -> list[Bracket]:
        """Return the single bracket, or none if `max_time` is not set: then no trial is stopped early."""
        if self.max_time is None:
            return []
        # No more rungs than the number of trials can fill.
        most = most_rungs(self.max_time, self.divisor, self.max_trials, _MOST_RUNGS)
        return [one_bracket(self, self.max_time, self.num_rungs or most)]
