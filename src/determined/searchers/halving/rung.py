"""A rung of successive halving: the trials on their way to it and the results of those that reached it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

WORST = math.inf


class Rung:
    """The results at a rung, best (smallest) first. A result without a metric counts as the worst."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._numbers: list[int] = []
        # In the order of entry: None for a trial without a result; a value for one that ended and waits for its turn.
        self._waiting: dict[int, float | None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number_at(self, index: int) -> int:
        """Return the number of the trial at a place of the ranking."""
        return self._numbers[index]

    def value_at(self, index: int) -> float:
        """Return the metric of the trial at a place of the ranking."""
        return self._values[index]

    @property
    def expects_results(self) -> bool:
        """Whether a trial set out for this rung and its result is not counted yet.

        Such a trial is on its way, or has ended and waits for its turn.
        """
        return bool(self._waiting)

    def enter(self, number: int) -> None:
        """Record that a trial is on its way to this rung."""
        self._waiting[number] = None

    def add(self, number: int, value: float, *, before_equals: bool) -> int:
        """Add a result and return its index in the order."""
        self._waiting.pop(number, None)
        # The two forms of halving treat equal values differently; see `_newcomers_before_equals`.
        index = (bisect_left if before_equals else bisect_right)(self._values, value)
        self._values.insert(index, value)
        self._numbers.insert(index, number)
        return index

    def leave(self, number: int, value: float) -> None:
        """Record that a trial ended on its way to this rung.

        Its result counts after all trials that entered before it have theirs, so that the moment of a failure does not
        influence the others.
        """
        self._waiting[number] = value

    def due(self) -> Iterator[tuple[int, float]]:
        """Yield trials that ended and whose turn has come. The caller must `add` each one before the next."""
        while self._waiting:
            # Dicts keep the order of entry, and the first entry is the one whose turn it is.
            number, value = next(iter(self._waiting.items()))
            if value is None:
                return
            yield number, value

    def forget(self, number: int) -> None:
        """Remove all traces of a trial."""
        self._waiting.pop(number, None)
        if number in self._numbers:
            index = self._numbers.index(number)
            del self._numbers[index], self._values[index]

    def waits_for(self, number: int) -> frozenset[int]:
        """Return the trials that set out for this rung before this one and have no result yet."""
        if number not in self._waiting:
            return frozenset()
        earlier = []
        for other, left in self._waiting.items():
            if other == number:
                break
            if left is None:
                earlier.append(other)
        return frozenset(earlier)

    def state(self) -> dict[str, Any]:
        return {
            "results": [[number, _plain(value)] for number, value in zip(self._numbers, self._values, strict=True)],
            "waiting": [[n, value is not None, _plain(value or 0.0)] for n, value in self._waiting.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._numbers = [number for number, _ in state["results"]]
        self._values = [_value(plain) for _, plain in state["results"]]
        self._waiting = {number: _value(plain) if left else None for number, left, plain in state["waiting"]}


def _plain(value: float) -> float | None:
    """Return a value for JSON, which cannot represent infinity."""
    return None if value == WORST else value


def _value(plain: float | None) -> float:
    return WORST if plain is None else plain
