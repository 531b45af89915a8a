"""The search method `async_halving`: successive halving in one bracket."""

from __future__ import annotations

from typing import Literal

from determined.config.validators import PositiveCount
from determined.searchers.halving.brackets import Bracket
from determined.searchers.halving.rung_search import one_bracket
from determined.searchers.halving.settings import SuccessiveHalving


class AsyncHalving(SuccessiveHalving):
    """Successive halving: trials are compared at rungs, and only the best continue.

    With `stop_once` the other trials are stopped permanently; without it they are paused with a checkpoint and can be
    promoted later. Release 0.38 of Determined has no such setting.
    """

    name: Literal["async_halving"]
    num_rungs: PositiveCount

    def brackets(self) -> list[Bracket]:
        return [one_bracket(self, self.max_time, self.num_rungs)]
