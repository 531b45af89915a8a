"""What every search method is told, what it answers, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Create:
    """Start a trial. `number` counts trials in the order of creation, `goal` is the time of its first decision.

    With `source` it starts from the newest checkpoint of that trial, once that trial has saved as it was told to.
    """

    number: int
    request_id: str
    hparams: dict[str, Any]
    seed: int
    goal: float | None
    bracket: int = 0
    rungs: tuple[float, ...] = ()
    source: int | None = None


@dataclass(frozen=True)
class Continue:
    """Go on to the new goal. A paused trial is started again, and goes ahead of trials that were never started."""

    number: int
    goal: float | None


@dataclass(frozen=True)
class Pause:
    """Save and leave the slot. A later `Continue` may revive it."""

    number: int


@dataclass(frozen=True)
class Stop:
    """End for good. `finished`: it has reached its last rung; otherwise others were better."""

    number: int
    finished: bool = False


Action = Create | Continue | Pause | Stop

ExitReason = Literal["completed", "errored", "canceled", "invalid_hp"]


@dataclass(frozen=True)
class Validated:
    """A trial reported a validation. `metric` is None when it is missing or not a number, `time` likewise."""

    number: int
    metric: float | None
    time: float | None


@dataclass(frozen=True)
class Exited:
    """A trial is over; also one that was told to stop, with `completed`."""

    number: int
    reason: ExitReason


@dataclass(frozen=True)
class Extended:
    """A person wants so many trials in all, more than before."""

    max_trials: int


@dataclass(frozen=True)
class Reopened:
    """A person wants trials that are over to go on, from what they saved. Where trials were compared they stay over."""

    numbers: tuple[int, ...]


Event = Validated | Exited | Extended | Reopened


class Searcher(Protocol):
    """A state machine without input or output.

    An event that was told before, or that comes from a trial which was stopped or is over, changes nothing.
    """

    def start(self) -> list[Action]: ...

    def on_event(self, event: Event) -> list[Action]: ...

    def waits_for(self, number: int) -> frozenset[int]:
        """Trials that came before this one to its present rung and have no result there."""
        ...

    def progress(self, fractions: Mapping[int, float]) -> float:
        """How much of the planned search is done, from 0 to 1; `fractions` is what running trials say of themselves."""
        ...

    @property
    def finished(self) -> bool:
        """Every trial is over and none will be created."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the search cannot go on, if it cannot."""
        ...

    def state(self) -> dict[str, Any]:
        """Plain JSON. A searcher built alike that restores it has the same future."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...
