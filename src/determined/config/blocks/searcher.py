"""The `searcher` block: the search method, its settings and the metric that compares trials."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from determined.config import validators
from determined.config.blocks.block import Block, tag_by
from determined.config.length import Length
from determined.config.validators import Count, FilledText, Flag, PositiveCount

Divisor = Annotated[float, validators.number(above=1)]
Fraction = Annotated[float, validators.number(0, 1)]
TrainingLength = Annotated[Length, validators.length(1, bare=True)]

# The default for max_concurrent_trials. The slots of the machine are usually the tighter limit; 0 means no limit.
_CONCURRENT = 16


class _Common(Block):
    """The fields that all search methods have."""

    name: str
    metric: FilledText
    smaller_is_better: Flag = True
    source_trial_id: PositiveCount | None = None
    source_checkpoint_uuid: FilledText | None = None
    max_length: TrainingLength | None = None


class SingleConfig(_Common):
    """A single trial."""

    name: Literal["single"]


class RandomConfig(_Common):
    """A number of trials with random hyperparameters."""

    name: Literal["random"]
    max_trials: PositiveCount
    max_concurrent_trials: Count = _CONCURRENT


class GridConfig(_Common):
    """A trial for every point of a grid."""

    name: Literal["grid"]
    max_concurrent_trials: Count = _CONCURRENT


class AsyncHalvingConfig(_Common):
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
    max_concurrent_trials: Count = _CONCURRENT
    stop_once: Flag = True


class AdaptiveAshaConfig(_Common):
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
    max_concurrent_trials: Count = _CONCURRENT
    bracket_rungs: tuple[PositiveCount, ...] = ()
    stop_once: Flag = True


class ReplaceFunction(Block):
    """The fraction of a population that is replaced after each round."""

    truncate_fraction: Annotated[float, validators.number(0, 0.5)] = 0.2


class ExploreFunction(Block):
    """How the hyperparameters of a copied trial are perturbed."""

    resample_probability: Fraction = 0.2
    perturb_factor: Fraction = 0.2


class PbtConfig(_Common):
    """Population based training: after each round the worst trials are replaced by copies of the best."""

    name: Literal["pbt"]
    population_size: PositiveCount
    num_rounds: PositiveCount
    length_per_round: TrainingLength
    time_metric: FilledText = "batches"
    replace_function: ReplaceFunction = ReplaceFunction()
    explore_function: ExploreFunction = ExploreFunction()


class OptunaConfig(_Common):
    """A search with any Optuna sampler; with `max_time` and `time_metric` also with rungs as in `async_halving`."""

    name: Literal["optuna"]
    max_trials: PositiveCount
    sampler: FilledText = "tpe"
    sampler_options: dict[str, Any] = {}
    max_concurrent_trials: Count = _CONCURRENT
    max_time: PositiveCount | None = None
    time_metric: FilledText | None = None
    num_rungs: PositiveCount | None = None
    divisor: Divisor = 4


SearcherConfig = Annotated[
    Annotated[SingleConfig, Tag("\0single")]
    | Annotated[RandomConfig, Tag("\0random")]
    | Annotated[GridConfig, Tag("\0grid")]
    | Annotated[AsyncHalvingConfig, Tag("\0async_halving")]
    | Annotated[AdaptiveAshaConfig, Tag("\0adaptive_asha")]
    | Annotated[PbtConfig, Tag("\0pbt")]
    | Annotated[OptunaConfig, Tag("\0optuna")],
    Discriminator(tag_by("name")),
]
