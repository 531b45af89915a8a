"""Previews a search without running it: brackets, rungs, expected number of trials at each, and cost."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.config.hyperparameters import Power, leaves
from determined.plural import counted
from determined.searchers.brackets import Bracket, whole_logarithm
from determined.searchers.build import brackets_of
from determined.searchers.grid import Grid
from determined.searchers.pbt import replaced_each_round

if TYPE_CHECKING:
    from determined.config.blocks.searcher import AdaptiveAshaConfig, AsyncHalvingConfig, OptunaConfig, SearcherConfig

_LARGE_GRID = 2000


@dataclass(frozen=True)
class ValueRange:
    """The smallest and largest value of a hyperparameter on a logarithmic scale."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Preview:
    """The expected course of a search.

    `plan` is (time, expected number of trials that end there); `units` the total time units; `share` their fraction of
    what all trials would take without early stopping. `at_once` 0 means limited by slots only. `time_metric`, `units`
    and `share` are None if trials run to their own end.
    """

    trials: int
    at_once: int
    brackets: tuple[Bracket, ...]
    plan: tuple[tuple[int, int], ...]
    time_metric: str | None
    units: int | None
    share: float | None
    ranges: tuple[ValueRange, ...]
    warnings: tuple[str, ...]
    suggestions: tuple[str, ...]


def preview(
    searcher: SearcherConfig,
    hyperparameters: dict[str, Any],
    *,
    slots: int | None = None,
    validation_period: float | None = None,
) -> Preview:
    """Return the expected course of a search, with warnings and suggestions.

    `validation_period`, in units of the time metric, is for a program that decides itself when to validate.
    """
    brackets = brackets_of(searcher)
    ranges, warnings = _log_ranges(hyperparameters)
    plan: tuple[tuple[int, int], ...] = ()
    units, longest, time_metric, suggestions = None, 0, None, list[str]()
    trials, at_once = _trials(searcher, hyperparameters)
    if searcher.name == "pbt":
        length = searcher.length_per_round.value
        units, longest, time_metric = searcher.population_size * searcher.num_rounds * length, 0, searcher.time_metric
    elif searcher.name in ("async_halving", "adaptive_asha", "optuna") and brackets:
        plan = _merged_plan(brackets, searcher.divisor)
        units, longest, time_metric = sum(time * count for time, count in plan), plan[-1][0], searcher.time_metric
        warnings += _rung_warnings(searcher, brackets, validation_period)
        at_once = at_once or sum(bracket.at_once for bracket in brackets)
        if getattr(searcher, "stop_once", False) and len(plan) > 1 and slots is not None and slots <= searcher.divisor:
            suggestions.append(_suggest_promotion(slots))
    if searcher.name == "grid" and trials > _LARGE_GRID:
        warnings.append(f"the grid has {counted(trials, 'point')}, each of them a trial; random takes max_trials")
    return Preview(
        trials=trials,
        at_once=at_once,
        brackets=tuple(brackets),
        plan=plan,
        time_metric=time_metric,
        units=units,
        share=units / (trials * longest) if units is not None and longest else None,
        ranges=tuple(ranges),
        warnings=tuple(warnings),
        suggestions=tuple(suggestions),
    )


def _trials(searcher: SearcherConfig, hyperparameters: dict[str, Any]) -> tuple[int, int]:
    """Return the number of trials in total and at the same time."""
    if searcher.name == "single":
        return 1, 1
    if searcher.name == "grid":
        return len(Grid(hyperparameters)), searcher.max_concurrent_trials
    if searcher.name == "pbt":
        replaced = replaced_each_round(searcher.population_size, searcher.replace_function.truncate_fraction)
        return searcher.population_size + replaced * (searcher.num_rounds - 1), searcher.population_size
    return searcher.max_trials, searcher.max_concurrent_trials


def _merged_plan(brackets: list[Bracket], divisor: float) -> tuple[tuple[int, int], ...]:
    """Return (time, expected number of trials that end there) over all brackets."""
    ends: Counter[int] = Counter()
    for bracket in brackets:
        for time, count in bracket.plan(divisor):
            ends[time] += count
    return tuple(sorted(ends.items()))


def _log_ranges(hyperparameters: dict[str, Any]) -> tuple[list[ValueRange], list[str]]:
    """Return the ranges of logarithmic hyperparameters, and warnings about bounds that look like values."""
    ranges, warnings = [], []
    for path, found in leaves(hyperparameters):
        if not isinstance(found, Power):
            continue
        name = ".".join(path)
        low, high = found.bounds()
        ranges.append(ValueRange(name, low, high))
        if found.base >= 2 and 0 < found.low < found.high <= 1 and not found.bounds_are_values:
            warnings.append(
                f"hyperparameters.{name}: the bounds of log are exponents, so its values lie between {low:g} and "
                f"{high:g}; for {found.low:g} to {found.high:g} write "
                f"{{type: loguniform, min: {found.low:g}, max: {found.high:g}}}"
            )
    return ranges, warnings


def _rung_warnings(
    searcher: AsyncHalvingConfig | AdaptiveAshaConfig | OptunaConfig,
    brackets: list[Bracket],
    validation_period: float | None,
) -> list[str]:
    """Return warnings about rungs that are too few, equal, or earlier than the first validation."""
    warnings = []
    times, longest = brackets[0].thresholds, brackets[0].thresholds[-1]
    possible = whole_logarithm(longest, searcher.divisor) + 1
    if len(times) <= 2 and possible <= 2:
        what = "no trial is stopped early" if len(times) == 1 else "trials are compared only once before the end"
        warnings.append(
            f"a max_time of {longest} {searcher.time_metric} gives {_rungs(len(times))}: {what}; a finer time_metric "
            "(batches, say) gives more"
        )
    elif len(times) == 1 and searcher.max_trials > 1:
        warnings.append(
            f"with {counted(searcher.max_trials, 'trial')} there is one rung, and no trial is stopped early: "
            f"halving begins at {counted(math.ceil(searcher.divisor), 'trial')}"
        )
    if len(set(times)) < len(times):
        warnings.append(
            f"some of the rungs {', '.join(map(str, times))} are the same: with a max_time of {longest} and a divisor "
            f"of {searcher.divisor:g} at most {possible} differ"
        )
    if validation_period is not None and validation_period > times[0]:
        warnings.append(
            f"the program validates every {validation_period:g} {searcher.time_metric}, and the first rung is at "
            f"{times[0]}: the first comparison comes late, and several rungs may fall together"
        )
    return warnings


def _rungs(count: int) -> str:
    return "one rung" if count == 1 else f"{count} rungs"


def _suggest_promotion(slots: int) -> str:
    return (
        f"With {slots} slot{'s' if slots > 1 else ''}, the first trials to reach a rung are promoted without "
        "competition. With stop_once: false, trials pause at rungs instead, and only the best of them continue."
    )
