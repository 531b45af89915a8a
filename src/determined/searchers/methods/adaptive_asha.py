"""The search method `adaptive_asha`: several successive halvings with different numbers of rungs."""

from __future__ import annotations

from typing import Annotated, Literal

from determined.config import validators
from determined.config.validators import PositiveCount
from determined.searchers.halving.brackets import Bracket, adaptive_brackets
from determined.searchers.halving.settings import SuccessiveHalving


class AdaptiveAsha(SuccessiveHalving):
    """Several successive halvings at the same time, from aggressive to conservative.

    `stop_once` as in `async_halving`.
    """

    name: Literal["adaptive_asha"]
    mode: Annotated[
        Literal["aggressive", "standard", "conservative"], validators.choice("aggressive", "standard", "conservative")
    ] = "standard"
    max_rungs: PositiveCount = 5
    bracket_rungs: tuple[PositiveCount, ...] = ()

    def brackets(self) -> list[Bracket]:
        return adaptive_brackets(
            max_time=self.max_time,
            divisor=self.divisor,
            trials=self.max_trials,
            at_once=self.max_concurrent_trials,
            mode=self.mode,
            max_rungs=self.max_rungs,
            bracket_rungs=self.bracket_rungs,
        )
