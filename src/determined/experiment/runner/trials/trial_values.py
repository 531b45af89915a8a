"""The parts of a `LiveTrial`: what was created, the row, decisions, failures, and the wait for other trials."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from determined.searchers.base import Stop
from determined.store.states import TrialState

# How the searcher ends a trial: before the time, or because it has trained for as long as it should.
FinalDecision = Literal["stop", "finish"]


def final_decision(action: Stop) -> FinalDecision:
    """Return how a searcher's action ends a trial."""
    return "finish" if action.finished else "stop"


@dataclass(frozen=True)
class RowValues:
    """The columns of a trial's row that a runner changes."""

    state: TrialState
    goal: float | None = None  # length at which the trial waits for a decision; None: it trains to its end
    source_checkpoint_id: str | None = None  # checkpoint of another trial from which to start
    runs: int = 0  # number of starts
    restarts: int = 0  # number of starts after a failure


@dataclass(frozen=True)
class Decided:
    """Decisions of the searcher about a trial, apart from its goal. They are restored from the journal."""

    final: FinalDecision | None = None  # carried out when the trial has saved its work at the goal
    suspended: bool = False  # paused until it is continued
    source_number: int | None = None  # number of the trial whose newest checkpoint it starts from


@dataclass(frozen=True)
class Failures:
    """Failed and lost processes of a trial so far, for the decision about a retry."""

    lost: int = 0  # number of times that processes were lost, with the engine or by a signal
    lost_nodes: tuple[str, ...] = ()  # nodes with which processes were lost since the checkpoint of `saved_step`
    saved_step: int = 0  # largest saved step when a node was last lost
    not_started_on: tuple[str, ...] = ()  # nodes of the last starts, if these could not start any processes
    without_report: str | None = None  # why the last attempt failed, if the trial has reported nothing
    repeated_error: str | None = None  # error with which two attempts failed, so that it was not retried
    restart_is_pending: bool = False  # a restart was counted but not made yet
    of_experiment: str | None = None  # error that ends the experiment, and which this trial has revealed


@dataclass
class ComparisonWait:
    """How long a trial at its goal has waited for earlier trials, by the monotonic clock."""

    decided_at: float = field(default_factory=time.monotonic)  # last decision, when the trial left for its goal
    since: float | None = None

    def begin(self) -> float:
        """Begin to wait, unless the trial waits already; return since when it waits."""
        self.since = time.monotonic() if self.since is None else self.since
        return self.since

    def suspend(self) -> None:
        """Do not count the time until the next `begin`."""
        self.since = None

    def end(self) -> None:
        """Record that a decision was made."""
        self.decided_at, self.since = time.monotonic(), None


@dataclass(frozen=True)
class TrialSpec:
    """The values with which the searcher created a trial; they never change."""

    id: int
    number: int  # 0, 1, 2 ... within the experiment
    request_id: str
    hparams: dict[str, Any]
    seed: int
    bracket: int
    rungs: tuple[float, ...]  # lengths at which trials are compared
