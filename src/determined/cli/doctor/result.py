"""`Result`: the outcome of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "problem"]


@dataclass(frozen=True)
class Result:
    """The outcome of a check: `missing` is something optional, a `problem` does not work as it should."""

    name: str
    state: State
    found: str
    advice: str = ""
    needed: bool = False  # whether the library does not work without it

    @property
    def is_broken(self) -> bool:
        """Whether something required does not work."""
        return self.needed and self.state != "ok"


def ok(name: str, found: str) -> Result:
    """Return the result of a check that found no problem."""
    return Result(name, "ok", found)


def missing(name: str, found: str, advice: str) -> Result:
    """Return the result for something optional that is not installed."""
    return Result(name, "missing", found, advice)


def problem(name: str, found: str, advice: str, *, needed: bool = False) -> Result:
    """Return the result of a check that found a problem; `needed` if the library does not work until it is solved."""
    return Result(name, "problem", found, advice, needed)
