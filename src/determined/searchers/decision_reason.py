"""A comparison of a trial with others: the reason why a search method promotes, pauses, stops or replaces it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Comparison:
    """The place of a trial among the trials that it was compared with, at the moment of the decision.

    `rung` counts from 0, within the bracket; population based training compares at the end of its rounds, which count
    likewise. `place` counts from 1. The best `kept` of the `of` trials continue. `time` and `metric` are None if the
    trial reported no finite value.
    """

    number: int
    time: float | None
    metric: float | None
    bracket: int
    rung: int
    place: int
    of: int
    kept: int
    at: Literal["rung", "round"] = "rung"
