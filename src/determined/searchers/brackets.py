"""The arithmetic of successive halving: rungs, brackets and their shares, in exact fractions, never by logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Mode = Literal["aggressive", "standard", "conservative"]


@dataclass(frozen=True)
class Bracket:
    """One halving: the times at which its trials are compared, how many trials it has, how many it begins with."""

    thresholds: tuple[int, ...]
    trials: int
    at_once: int

    def plan(self, divisor: float) -> list[tuple[int, int]]:
        """About how many trials end at which time: if each rung lets exactly its share through."""
        reached = [self.trials]
        for _ in self.thresholds[1:]:
            reached.append(max(math.floor(Fraction(reached[-1]) / Fraction(divisor)), 1))
        ends = [before - after for before, after in zip(reached, [*reached[1:], 0], strict=True)]
        return list(zip(self.thresholds, ends, strict=True))


def thresholds(max_time: int, divisor: float, rungs: int) -> tuple[int, ...]:
    return tuple(max(math.floor(max_time / Fraction(divisor) ** (rungs - 1 - rung)), 1) for rung in range(rungs))


def whole_logarithm(number: int, base: float) -> int:
    """The largest whole exponent for which the power of the base is not above the number."""
    exponent, power = 0, Fraction(base)
    while power <= number:
        exponent, power = exponent + 1, power * Fraction(base)
    return exponent


def halving_bracket(*, max_time: int, divisor: float, rungs: int, trials: int, at_once: int) -> Bracket:
    """The one bracket of `async_halving`. `at_once` 0: as many as it takes to bring one trial to the top."""
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
    """The brackets of `adaptive_asha`, the most aggressive first."""
    sizes = sorted(bracket_rungs or _sizes(mode, most_rungs(max_time, divisor, trials, max_rungs)), reverse=True)
    sizes = sizes[:trials]  # no more brackets than trials
    shares = _trial_shares(sizes, divisor, trials)
    places = _place_shares(shares, divisor, at_once)
    return [
        Bracket(thresholds(max_time, divisor, size), share, place)
        for size, share, place in zip(sizes, shares, places, strict=True)
    ]


def most_rungs(max_time: int, divisor: float, trials: int, max_rungs: int) -> int:
    return min(max_rungs, whole_logarithm(max_time, divisor) + 1, whole_logarithm(trials, divisor) + 1)


def _sizes(mode: Mode, most: int) -> Sequence[int]:
    if mode == "aggressive":
        return [most]
    return range((most - 1) // 2 + 1 if mode == "standard" else 1, most + 1)


def _trial_shares(sizes: Sequence[int], divisor: float, trials: int) -> list[int]:
    """Each bracket is to have about the same budget."""
    weights = [Fraction(divisor) ** (size - 1) / size for size in sizes]
    shares = [max(math.floor(weight / sum(weights) * trials), 1) for weight in weights]
    shares[0] += trials - sum(shares)
    return shares


def _place_shares(trial_shares: Sequence[int], divisor: float, at_once: int) -> list[int]:
    if at_once == 0:
        return [max(trial_shares[-1], math.floor(divisor))] * len(trial_shares)
    count = len(trial_shares)
    share, rest = divmod(max(at_once, count), count)
    return [share + (position < rest) for position in range(count)]


def next_bracket(brackets: Sequence[Bracket], created: Sequence[int]) -> int:
    """To which bracket the next trial belongs, from how many each has: so the order of creation alone decides.

    First every bracket gets the trials that it begins with; the rest is dealt out in proportion.
    """
    for position, bracket in enumerate(brackets):
        if created[position] < min(bracket.at_once, bracket.trials):
            return position
    return min(range(len(brackets)), key=lambda position: Fraction(created[position], brackets[position].trials))
