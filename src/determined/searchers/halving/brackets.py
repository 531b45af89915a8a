"""The arithmetic of successive halving: rungs, brackets and their shares of trials.

Calculated with exact fractions: rounding errors of floats and logarithms could remove or add a rung.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Mode = Literal["aggressive", "standard", "conservative"]


@dataclass(frozen=True)
class Bracket:
    """One run of successive halving.

    `thresholds` are the times at which its trials are compared, `trials` is their total number, and `at_once` the
    number it begins with.
    """

    thresholds: tuple[int, ...]
    trials: int
    at_once: int

    def plan(self, divisor: float) -> list[tuple[int, int]]:
        """Return (time, number of trials that end there) for each rung, if each rung promotes exactly its share."""
        reached = [self.trials]
        for _ in self.thresholds[1:]:
            # At least one trial continues, so that the last rung is always reached.
            reached.append(max(math.floor(Fraction(reached[-1]) / Fraction(divisor)), 1))
        ends = [before - after for before, after in zip(reached, [*reached[1:], 0], strict=True)]
        return list(zip(self.thresholds, ends, strict=True))


def thresholds(max_time: int, divisor: float, rungs: int) -> tuple[int, ...]:
    """Return the times of the rungs, each about `divisor` times the one before."""
    # From the last rung backwards, so that it is exactly `max_time`; no rung can be before the first unit.
    return tuple(max(math.floor(max_time / Fraction(divisor) ** (rungs - 1 - rung)), 1) for rung in range(rungs))


def integer_logarithm(number: int, base: float) -> int:
    """Return the largest integer exponent for which the power of the base does not exceed the number."""
    # By multiplication: `math.log(1000, 10)` is 2.9999999999999996.
    exponent, power = 0, Fraction(base)
    while power <= number:
        exponent, power = exponent + 1, power * Fraction(base)
    return exponent


def halving_bracket(*, max_time: int, divisor: float, rungs: int, trials: int, at_once: int) -> Bracket:
    """Return the single bracket of `async_halving`.

    `at_once` 0 means as many trials as are needed to promote one to the last rung.
    """
    if at_once == 0:
        at_once = math.floor(Fraction(divisor) ** (rungs - 1))
    return Bracket(thresholds(max_time, divisor, rungs), trials, max(min(at_once, trials), 1))


def adaptive_brackets(
    *,
    max_time: int,
    divisor: float,
    trials: int,
    at_once: int,
    mode: Mode,
    max_rungs: int,
    bracket_rungs: Sequence[int] = (),
) -> list[Bracket]:
    """Return the brackets of `adaptive_asha`, the most aggressive first."""
    # The most aggressive first: it is the first to get the remainder of the trials, and its trials the lowest numbers.
    sizes = sorted(bracket_rungs or _sizes(mode, most_rungs(max_time, divisor, trials, max_rungs)), reverse=True)
    sizes = sizes[:trials]  # no more brackets than trials
    shares = _trial_shares(sizes, divisor, trials)
    places = _place_shares(shares, divisor, at_once)
    return [
        Bracket(thresholds(max_time, divisor, size), share, place)
        for size, share, place in zip(sizes, shares, places, strict=True)
    ]


def most_rungs(max_time: int, divisor: float, trials: int, max_rungs: int) -> int:
    """Return the largest useful number of rungs for this time and number of trials."""
    return min(max_rungs, integer_logarithm(max_time, divisor) + 1, integer_logarithm(trials, divisor) + 1)


def _sizes(mode: Mode, most: int) -> Sequence[int]:
    """Return the numbers of rungs of the brackets that a mode has."""
    if mode == "aggressive":
        return [most]
    return range((most - 1) // 2 + 1 if mode == "standard" else 1, most + 1)


def _trial_shares(sizes: Sequence[int], divisor: float, trials: int) -> list[int]:
    """Distribute the trials over the brackets so that each bracket has about the same training budget."""
    # A bracket with more rungs trains each of its trials less, so it gets more of them.
    weights = [Fraction(divisor) ** (size - 1) / size for size in sizes]
    shares = [max(math.floor(weight / sum(weights) * trials), 1) for weight in weights]
    # Rounding leaves some trials over, or, with `max(..., 1)`, gives out too many.
    shares[0] += trials - sum(shares)
    return shares


def _place_shares(trial_shares: Sequence[int], divisor: float, at_once: int) -> list[int]:
    """Distribute the concurrent trials over the brackets."""
    if at_once == 0:
        return [max(trial_shares[-1], math.floor(divisor))] * len(trial_shares)
    count = len(trial_shares)
    # At least one for each bracket: one without a place would never begin.
    share, rest = divmod(max(at_once, count), count)
    return [share + (position < rest) for position in range(count)]


def next_bracket(brackets: Sequence[Bracket], created: Sequence[int]) -> int:
    """Return the bracket of the next trial, which depends only on how many trials each bracket has.

    First every bracket gets the trials that it begins with; the remaining ones are distributed in proportion.
    """
    for position, bracket in enumerate(brackets):
        if created[position] < min(bracket.at_once, bracket.trials):
            return position
    # Exact fractions, so that ties are ties; `min` then takes the first bracket.
    return min(range(len(brackets)), key=lambda position: Fraction(created[position], brackets[position].trials))
