"""Previews a search without running it: brackets, rungs, expected number of trials at each, and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.config.hyperparameters import LogRange, leaves
from determined.searchers.halving.brackets import Bracket
from determined.searchers.method import method_of

if TYPE_CHECKING:
    from determined.config.blocks.searcher import SearcherBlock


@dataclass(frozen=True)
class ValueRange:
    """The smallest and largest value of a hyperparameter on a logarithmic scale."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Preview:
    """The expected course of a search, as its `Outline`, with the ranges of hyperparameters.

    `share` is the fraction of the time units that all trials would take without early stopping; None if trials run to
    their own end.
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
    searcher: SearcherBlock,
    hyperparameters: dict[str, Any],
    *,
    slots: int | None = None,
    validation_period: float | None = None,
) -> Preview:
    """Return the expected course of a search, with warnings and suggestions.

    `validation_period`, in units of the time metric, is for a program that decides itself when to validate.
    """
    outline = method_of(searcher).outline(hyperparameters, slots=slots, validation_period=validation_period)
    ranges, warnings = _log_ranges(hyperparameters)
    # The plan is sorted by time, and trials that are never stopped end at its last entry.
    longest = outline.plan[-1][0] if outline.plan else 0
    return Preview(
        trials=outline.trials,
        at_once=outline.at_once,
        brackets=outline.brackets,
        plan=outline.plan,
        time_metric=outline.time_metric,
        units=outline.units,
        share=outline.units / (outline.trials * longest) if outline.units is not None and longest else None,
        ranges=tuple(ranges),
        warnings=(*warnings, *outline.warnings),
        suggestions=outline.suggestions,
    )


def _log_ranges(hyperparameters: dict[str, Any]) -> tuple[list[ValueRange], list[str]]:
    """Return the ranges of logarithmic hyperparameters, and warnings about bounds that look like values."""
    ranges, warnings = [], []
    for path, found in leaves(hyperparameters):
        if not isinstance(found, LogRange):
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
