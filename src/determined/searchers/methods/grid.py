"""The search method `grid`: a trial for every combination of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from determined.config.blocks.searcher import CONCURRENT_TRIALS
from determined.config.plain_data import dotted
from determined.config.space import is_range, leaves
from determined.config.validators import Count
from determined.errors import Mistake
from determined.searchers.base import Searcher
from determined.searchers.free_running import FreeRunningSearcher
from determined.searchers.grid import Grid
from determined.searchers.method import Method, Outline
from determined.searchers.pool import Pool
from determined.searchers.sources import GridSource
from determined.sentences import counted

_LARGE_GRID = 2000  # above this a mistake in `count` is likely


class GridSearch(Method):
    """A trial for every point of a grid."""

    to_continue: ClassVar[str] = "give its trials more to train with --config searcher.max_length.batches=N"

    name: Literal["grid"]
    max_concurrent_trials: Count = CONCURRENT_TRIALS

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[Mistake]:
        """Require `count` for every range."""
        for path, leaf in leaves(config.get("hyperparameters")):
            if is_range(leaf) and leaf.get("count") is None:
                message = f"missing: a grid needs the number of points of every {leaf['type']}"
                yield Mistake(dotted((*path, "count")), None, message, "for example count: 4")

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        grid = Grid(space)
        fixed = f"a grid search has one trial for each of its {len(grid)} points"
        # An invalid point is not replaced: the grid has no other point for it.
        pool = Pool(len(grid), self.max_concurrent_trials, replace_invalid=False, fixed_because=fixed)
        return FreeRunningSearcher(GridSource(grid, seed), pool)

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        trials = len(Grid(space))
        large = f"the grid has {counted(trials, 'point')}, each of them a trial; random takes max_trials"
        return Outline(trials, self.max_concurrent_trials, warnings=(large,) if trials > _LARGE_GRID else ())
