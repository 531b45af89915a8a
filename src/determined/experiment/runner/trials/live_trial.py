"""The state of a trial in its runner."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from determined.config.secrets.line_mask import LineMask
from determined.stop_request import StopRequest
from determined.store.states import TrialState


@dataclass(frozen=True)
class Place:
    """A line of source code."""

    file: str
    line: int
    is_own: bool  # part of the program, not of a library


@dataclass
class Process:
    """A trial's processes, from their start until all of them have ended."""

    key: str
    directory: str = ""  # working directory of its program
    started: float = field(default_factory=time.monotonic)
    asked: StopRequest | None = None  # what the runner requested of it
    asked_at: float = 0.0
    killed: str | None = None  # why the runner killed it
    halted: bool = False  # killed without saving, because the user did not want to wait
    interrupted: bool = False  # whether it got SIGINT, because it does not read requests
    attempts_before: int = 0  # number of attempts in the store that are not its own
    sign_of_life: float = field(default_factory=time.monotonic)
    reported: float = 0.0  # when it last reported a validation
    cpu_seconds: float = 0.0  # CPU time at `cpu_looked`
    cpu_looked: float = field(default_factory=time.monotonic)  # when the CPU time was read
    stacks_shown: float | None = None
    errors: dict[int, str] = field(default_factory=dict)  # by rank: last line of a traceback in its log, with its place
    places: dict[int, Place] = field(default_factory=dict)  # by rank: innermost place of a traceback in its log
    first_failure: tuple[int, str] | None = None  # the rank that failed first, and the launcher's message about it
    no_retries: str | None = None  # the log policy that forbids a retry
    lines: dict[int, int] = field(default_factory=dict)  # by rank: number of stored lines
    mask: LineMask = field(default_factory=LineMask)  # masks the secrets of its environment

    @property
    def last_error(self) -> str:
        """Why the processes failed, from their log.

        Of several ranks the first failure counts: the others fail because of it.
        """
        if self.first_failure is None:
            return next(reversed(self.errors.values()), "")
        rank, words = self.first_failure
        return self.errors.get(rank, words)


@dataclass
class LiveTrial:
    """A trial of a running experiment: the state in its row, and what the runner remembers in addition."""

    id: int
    number: int
    request_id: str
    hparams: dict[str, Any]
    seed: int
    bracket: int
    rungs: tuple[float, ...]
    goal: float | None
    state: TrialState
    source: str | None = None  # checkpoint of another trial from which to start
    source_number: int | None = None  # number of the trial whose newest checkpoint that will be
    runs: int = 0
    restarts: int = 0
    process: Process | None = None
    ended_by: Literal["stop", "finish", None] = None  # the searcher's final decision, carried out at the goal
    suspended: bool = False  # paused by the searcher until it is continued
    owes_pause: bool = False  # suspended, but not saved: it must run to its goal again to be saved
    lost: int = 0  # number of times its processes were lost, with the engine or by a signal
    seen: tuple[int, int] = (0, -1)  # attempt and sequence number of the newest validation that was read
    last_step: int = -1  # step of that validation
    steps: int = 0  # largest step that it reported or saved
    last_value: tuple[float | None, float | None] | None = None  # metric and time of that validation
    # Metric and time of a validation at the goal that waits for a decision.
    at_goal: tuple[float | None, float | None] | None = None
    decided_at: float = field(default_factory=time.monotonic)
    waiting_since: float | None = None  # since when it waits at its goal for earlier trials
    best: float | None = None
    values: list[float] = field(default_factory=list)  # newest values of the metric, for display
    # Hyperparameters that its program passed to `init()`; None until training begins.
    passed_hparams: dict[str, Any] | None = None
    progress: float | None = None
    seconds_before: float = 0.0  # duration of earlier starts
    warned: set[str] = field(default_factory=set)
    failure_without_report: str | None = None  # why its last attempt failed, if the trial has reported nothing
    repeated_error: str | None = None  # error with which two attempts failed, so that it was not retried
    owes_restart: bool = False  # a restart was counted but not made yet
    fatal: str | None = None  # error of the experiment that this trial has revealed

    @property
    def may_start(self) -> bool:
        """Whether the trial is ready to be started."""
        ready = self.state in ("QUEUED", "PAUSED") and self.process is None and self.source_number is None
        return ready and self.at_goal is None and (not self.suspended or self.owes_pause)

    @property
    def reached(self) -> float:
        """The largest length at which the trial was compared."""
        passed = [rung for rung in self.rungs if self.goal is not None and rung < self.goal]
        if self.goal is not None and (self.ended_by is not None or self.suspended):
            passed.append(self.goal)
        return max(passed, default=0.0)

    @property
    def rung(self) -> int:
        """The number of rungs that the trial has passed."""
        return len(self.rungs) if self.goal is None else sum(rung < self.goal for rung in self.rungs)

    @property
    def seconds(self) -> float:
        """The total running time of the trial's processes."""
        now = 0.0 if self.process is None else time.monotonic() - self.process.started
        return self.seconds_before + now
