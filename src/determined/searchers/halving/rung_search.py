"""Shared by the search methods with rungs: their brackets, their searcher, and the preview of both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from determined.searchers.base import Searcher
from determined.searchers.halving.brackets import Bracket, halving_bracket, integer_logarithm
from determined.searchers.halving.promotion import PromotionSearcher
from determined.searchers.halving.stopping import StoppingSearcher
from determined.searchers.method import Outline
from determined.searchers.pool import Pool
from determined.searchers.sources import TrialSource
from determined.sentences import counted


class RungSettings(Protocol):
    """The settings that all search methods with rungs have."""

    @property
    def smaller_is_better(self) -> bool: ...
    @property
    def max_trials(self) -> int: ...
    @property
    def max_concurrent_trials(self) -> int: ...
    @property
    def divisor(self) -> float: ...
    @property
    def time_metric(self) -> str | None: ...


def one_bracket(settings: RungSettings, max_time: int, rungs: int) -> Bracket:
    """Return the bracket of a search that has only one."""
    return halving_bracket(
        max_time=max_time,
        divisor=settings.divisor,
        rungs=rungs,
        trials=settings.max_trials,
        at_once=settings.max_concurrent_trials,
    )


def rung_searcher(
    settings: RungSettings, source: TrialSource, brackets: Sequence[Bracket], *, stop_once: bool
) -> Searcher:
    """Return a searcher that compares trials at rungs: by stopping, or with `stop_once` false by promotion."""
    # If the configuration sets no limit, the number of concurrent trials is the sum of what the brackets begin with.
    at_once = settings.max_concurrent_trials or sum(bracket.at_once for bracket in brackets)
    return (StoppingSearcher if stop_once else PromotionSearcher)(
        source,
        Pool(settings.max_trials, at_once),
        brackets,
        divisor=settings.divisor,
        smaller_is_better=settings.smaller_is_better,
    )


def rung_outline(
    settings: RungSettings,
    brackets: Sequence[Bracket],
    *,
    slots: int | None,
    validation_period: float | None,
    could_promote: bool,
) -> Outline:
    """Return the outline of a search with rungs.

    `could_promote` is True if the search stops trials and can be set to pause them instead; with few slots that is
    suggested.
    """
    plan = _merged_plan(brackets, settings.divisor)
    # With fewer slots than the divisor, too few trials are at a rung at the same time for a comparison.
    suggested = could_promote and len(plan) > 1 and slots is not None and slots <= settings.divisor
    return Outline(
        trials=settings.max_trials,
        at_once=settings.max_concurrent_trials or sum(bracket.at_once for bracket in brackets),
        brackets=tuple(brackets),
        plan=plan,
        time_metric=settings.time_metric,
        units=sum(time * count for time, count in plan),
        warnings=tuple(_rung_warnings(settings, brackets, validation_period)),
        suggestions=(_suggest_promotion(slots),) if suggested and slots is not None else (),
    )


def _merged_plan(brackets: Sequence[Bracket], divisor: float) -> tuple[tuple[int, int], ...]:
    """Return (time, expected number of trials that end there) over all brackets."""
    ends: Counter[int] = Counter()
    for bracket in brackets:
        for time, count in bracket.plan(divisor):
            ends[time] += count
    return tuple(sorted(ends.items()))


def _rung_warnings(settings: RungSettings, brackets: Sequence[Bracket], validation_period: float | None) -> list[str]:
    """Return warnings about rungs that are too few, equal, or earlier than the first validation."""
    warnings = []
    times, longest = brackets[0].thresholds, brackets[0].thresholds[-1]
    possible = integer_logarithm(longest, settings.divisor) + 1
    if len(times) <= 2 and possible <= 2:
        what = "no trial is stopped early" if len(times) == 1 else "trials are compared only once before the end"
        warnings.append(
            f"a max_time of {longest} {settings.time_metric} gives {_rungs(len(times))}: {what}; a finer time_metric "
            "(batches, say) gives more"
        )
    elif len(times) == 1 and settings.max_trials > 1:
        warnings.append(
            f"with {counted(settings.max_trials, 'trial')} there is one rung, and no trial is stopped early: "
            f"halving begins at {counted(math.ceil(settings.divisor), 'trial')}"
        )
    if len(set(times)) < len(times):
        warnings.append(
            f"some of the rungs {', '.join(map(str, times))} are the same: with a max_time of {longest} and a divisor "
            f"of {settings.divisor:g} at most {possible} differ"
        )
    if validation_period is not None and validation_period > times[0]:
        warnings.append(
            f"the program validates every {validation_period:g} {settings.time_metric}, and the first rung is at "
            f"{times[0]}: the first comparison comes late, and several rungs may fall together"
        )
    return warnings


def _rungs(count: int) -> str:
    return "one rung" if count == 1 else f"{count} rungs"


def _suggest_promotion(slots: int) -> str:
    """Return a hint for the user: with few slots, `stop_once: false` pauses trials instead of stopping them."""
    return (
        f"With {slots} slot{'s' if slots > 1 else ''}, the first trials to reach a rung are promoted without "
        "competition. With stop_once: false, trials pause at rungs instead, and only the best of them continue."
    )
