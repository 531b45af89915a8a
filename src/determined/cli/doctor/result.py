"""What was found of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "problem"]


@dataclass(frozen=True)
class Result:
    """One line: missing is what is only needed for more, a problem is what does not work as it should."""

    name: str
    state: State
    found: str
    advice: str = ""
    needed: bool = False  # nothing works well without it

    @property
    def is_broken(self) -> bool:
        return self.needed and self.state != "ok"


def ok(name: str, found: str) -> Result:
    return Result(name, "ok", found)


def missing(name: str, found: str, advice: str) -> Result:
    return Result(name, "missing", found, advice)


def problem(name: str, found: str, advice: str, *, needed: bool = False) -> Result:
    return Result(name, "problem", found, advice, needed)
