"""Builds the searcher that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.searchers.base import Searcher
from determined.searchers.brackets import Bracket, adaptive_brackets, halving_bracket, most_rungs
from determined.searchers.free_running import FreeRunningSearcher
from determined.searchers.grid import Grid
from determined.searchers.optuna_source import OptunaSource
from determined.searchers.pbt import PbtSearcher
from determined.searchers.pool import Pool
from determined.searchers.promotion import PromotionSearcher
from determined.searchers.sources import GridSource, RandomSource, TrialSource
from determined.searchers.stopping import StoppingSearcher

if TYPE_CHECKING:
    from determined.config.blocks.searcher import (
        AdaptiveAshaConfig,
        AsyncHalvingConfig,
        GridConfig,
        OptunaConfig,
        PbtConfig,
        SearcherConfig,
    )

# The rungs of an Optuna search that configures none: at most as many as adaptive_asha uses by default.
_MOST_RUNGS = 5


def build(searcher: SearcherConfig, hyperparameters: dict[str, Any], seed: int) -> Searcher:
    """Return a new searcher. The same arguments always build the same searcher."""
    if searcher.name == "grid":
        return _grid(searcher, hyperparameters, seed)
    if searcher.name == "pbt":
        return _pbt(searcher, hyperparameters, seed)
    if searcher.name == "optuna":
        return _optuna(searcher, hyperparameters, seed)
    source = RandomSource(hyperparameters, seed)
    if searcher.name == "single":
        fixed = "single is one trial; random takes max_trials"
        return FreeRunningSearcher(source, Pool(1, 1, replace_invalid=False, fixed_because=fixed))
    if searcher.name == "random":
        return FreeRunningSearcher(source, Pool(searcher.max_trials, searcher.max_concurrent_trials))
    return _halving(searcher, source, brackets_of(searcher), stop_once=searcher.stop_once)


def brackets_of(searcher: SearcherConfig) -> list[Bracket]:
    """Return the brackets of a search by halving; empty if trials run to their own end."""
    if searcher.name == "adaptive_asha":
        return adaptive_brackets(
            max_time=searcher.max_time,
            divisor=searcher.divisor,
            trials=searcher.max_trials,
            at_once=searcher.max_concurrent_trials,
            mode=searcher.mode,
            max_rungs=searcher.max_rungs,
            bracket_rungs=searcher.bracket_rungs,
        )
    if searcher.name == "async_halving":
        return [_one_bracket(searcher, searcher.max_time, searcher.num_rungs)]
    if searcher.name == "optuna" and searcher.max_time is not None:
        most = most_rungs(searcher.max_time, searcher.divisor, searcher.max_trials, _MOST_RUNGS)
        return [_one_bracket(searcher, searcher.max_time, searcher.num_rungs or most)]
    return []


def _one_bracket(searcher: AsyncHalvingConfig | OptunaConfig, max_time: int, rungs: int) -> Bracket:
    return halving_bracket(
        max_time=max_time,
        divisor=searcher.divisor,
        rungs=rungs,
        trials=searcher.max_trials,
        at_once=searcher.max_concurrent_trials,
    )


def _halving(
    searcher: AsyncHalvingConfig | AdaptiveAshaConfig | OptunaConfig,
    source: TrialSource,
    brackets: list[Bracket],
    *,
    stop_once: bool = True,
) -> Searcher:
    """Return a searcher that compares trials at rungs: by stopping, or with `stop_once` false by promotion."""
    # If the configuration sets no limit, the number of concurrent trials is the sum of what the brackets begin with.
    at_once = searcher.max_concurrent_trials or sum(bracket.at_once for bracket in brackets)
    return (StoppingSearcher if stop_once else PromotionSearcher)(
        source,
        Pool(searcher.max_trials, at_once),
        brackets,
        divisor=searcher.divisor,
        smaller_is_better=searcher.smaller_is_better,
    )


def _grid(searcher: GridConfig, hyperparameters: dict[str, Any], seed: int) -> Searcher:
    grid = Grid(hyperparameters)
    fixed = f"a grid search has one trial for each of its {len(grid)} points"
    pool = Pool(len(grid), searcher.max_concurrent_trials, replace_invalid=False, fixed_because=fixed)
    return FreeRunningSearcher(GridSource(grid, seed), pool)


def _optuna(searcher: OptunaConfig, hyperparameters: dict[str, Any], seed: int) -> Searcher:
    source = OptunaSource(
        hyperparameters,
        seed,
        sampler=searcher.sampler,
        options=searcher.sampler_options,
        smaller_is_better=searcher.smaller_is_better,
    )
    if brackets := brackets_of(searcher):
        return _halving(searcher, source, brackets)
    return FreeRunningSearcher(source, Pool(searcher.max_trials, searcher.max_concurrent_trials))


def _pbt(searcher: PbtConfig, hyperparameters: dict[str, Any], seed: int) -> Searcher:
    return PbtSearcher(
        hyperparameters,
        seed,
        population=searcher.population_size,
        rounds=searcher.num_rounds,
        length=searcher.length_per_round.value,
        truncate_fraction=searcher.replace_function.truncate_fraction,
        resample_probability=searcher.explore_function.resample_probability,
        perturb_factor=searcher.explore_function.perturb_factor,
        smaller_is_better=searcher.smaller_is_better,
    )
