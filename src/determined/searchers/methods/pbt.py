"""The search method `pbt`: population based training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.blocks.searcher import Fraction, TrainingLength
from determined.config.length import Length, read_length
from determined.config.validators import FilledText, PositiveCount
from determined.searchers.base import Searcher
from determined.searchers.method import Method, Outline
from determined.searchers.pbt import PbtSearcher, replaced_each_round


class ReplaceFunction(Block):
    """The fraction of a population that is replaced after each round."""

    # At most half: a trial cannot be among the best and among the replaced ones.
    truncate_fraction: Annotated[float, validators.number(0, 0.5)] = 0.2


class ExploreFunction(Block):
    """How the hyperparameters of a copied trial are perturbed."""

    resample_probability: Fraction = 0.2
    perturb_factor: Fraction = 0.2


class PopulationSearch(Method):
    """Population based training: after each round the worst trials are replaced by copies of the best."""

    to_continue: ClassVar[str] = (
        "a population goes no further; create another experiment with searcher.source_checkpoint_uuid"
    )
    time_follows_length: ClassVar[bool] = False  # it follows length_per_round

    name: Literal["pbt"]
    population_size: PositiveCount
    num_rounds: PositiveCount
    length_per_round: TrainingLength
    time_metric: FilledText = "batches"
    replace_function: ReplaceFunction = ReplaceFunction()
    explore_function: ExploreFunction = ExploreFunction()

    @classmethod
    def derived(cls, block: Mapping[str, Any]) -> dict[str, Any]:
        """Return the time metric, and the length of a trial that is never replaced, which its program reads."""
        length, rounds = read_length(block.get("length_per_round")), block.get("num_rounds")
        if length is None:
            return {}
        found: dict[str, Any] = {"time_metric": length.unit or "batches"}
        if isinstance(rounds, int) and rounds >= 1 and length.value >= 1:  # otherwise reported by the validation
            found["max_length"] = Length(rounds * length.value, length.unit).plain()
        return found

    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        return PbtSearcher(
            space,
            seed,
            population=self.population_size,
            rounds=self.num_rounds,
            length=self.length_per_round.value,
            truncate_fraction=self.replace_function.truncate_fraction,
            resample_probability=self.explore_function.resample_probability,
            perturb_factor=self.explore_function.perturb_factor,
            smaller_is_better=self.smaller_is_better,
        )

    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        replaced = replaced_each_round(self.population_size, self.replace_function.truncate_fraction)
        return Outline(
            trials=self.population_size + replaced * (self.num_rounds - 1),
            at_once=self.population_size,
            time_metric=self.time_metric,
            # Copies continue from their parents, so the population trains as long as if none were replaced.
            units=self.population_size * self.num_rounds * self.length_per_round.value,
        )
