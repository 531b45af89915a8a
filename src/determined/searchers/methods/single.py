"""The search method `single`: one trial."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from determined.searchers.base import Searcher
from determined.searchers.free_running import FreeRunningSearcher
from determined.searchers.method import Method, Outline
from determined.searchers.pool import Pool
from determined.searchers.sources import RandomSource


class SingleSearch(Method):
    """A single trial."""

    to_continue: ClassVar[str] = "say what shall change, for example --config searcher.max_length.batches=2000"

    name: Literal["single"]

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        fixed = "single is one trial; random takes max_trials"
        # An invalid trial is not replaced: the search is this one trial.
        return FreeRunningSearcher(RandomSource(space, seed), Pool(1, 1, replace_invalid=False, fixed_because=fixed))

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        return Outline(trials=1, at_once=1)
