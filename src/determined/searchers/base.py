"""The `Searcher` interface: the events that a search method receives and the actions that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from determined.searchers.decision_reason import Comparison


@dataclass(frozen=True)
class Create:
    """Create a trial. `number` counts trials in the order of creation; `goal` is the time of its first decision.

    With `source`, the trial starts from the newest checkpoint of the trial with that number, after that trial has
    saved.
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
    """Let a trial train up to a new goal.

    A paused trial is restarted, with precedence over trials that were never started.
    """

    number: int
    goal: float | None


@dataclass(frozen=True)
class Pause:
    """Let a trial save a checkpoint and release its slots. A later `Continue` resumes it."""

    number: int


@dataclass(frozen=True)
class Stop:
    """End a trial permanently. `finished` states that it reached its last rung; otherwise it lost against others."""

    number: int
    finished: bool = False


# Plain values: they are stored in the journal with the event that caused them, and replayed after a crash.
Action = Create | Continue | Pause | Stop

# Stored in journals, so existing words cannot change.
ExitReason = Literal["completed", "errored", "canceled", "invalid_hp"]


@dataclass(frozen=True)
class Validated:
    """A trial reported a validation. `metric` and `time` are None if they are missing or not finite numbers."""

    number: int
    metric: float | None
    time: float | None


@dataclass(frozen=True)
class Exited:
    """A trial has ended. One that was stopped by the search ends with `completed`."""

    number: int
    reason: ExitReason


@dataclass(frozen=True)
class Extended:
    """The user increased the total number of trials."""

    max_trials: int


@dataclass(frozen=True)
class Reopened:
    """The user wants to continue trials that have ended, from their checkpoints.

    Methods that compare trials ignore it.
    """

    numbers: tuple[int, ...]


Event = Validated | Exited | Extended | Reopened


class Searcher(Protocol):
    """A search method: a state machine without I/O.

    An event that was received before, or that comes from a trial which was stopped or has ended, changes nothing.
    """

    def start(self) -> list[Action]: ...

    def on_event(self, event: Event) -> list[Action]:
        """Process an event and return the actions that follow from it."""
        ...

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparisons made for the last event, in their order: they explain its actions."""
        ...

    def waits_for(self, number: int) -> frozenset[int]:
        """Return the trials that entered the present rung of this trial before it and have no result there yet."""
        ...

    def progress(self, fractions: Mapping[int, float]) -> float:
        """Return the completed part of the planned search, from 0 to 1.

        `fractions` is the progress of running trials.
        """
        ...

    @property
    def finished(self) -> bool:
        """Whether every trial has ended and no more will be created."""
        ...

    @property
    def failure(self) -> str | None:
        """The reason why the search cannot continue, or None."""
        ...

    def state(self) -> dict[str, Any]:
        """Return a snapshot as plain JSON data.

        A searcher built with the same arguments that restores it behaves identically from then on.
        """
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with a state that `state` returned."""
        ...
