"""A trial as its runner sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from determined.config.line_mask import LineMask
from determined.store.experiment_records import TrialState

Ask = Literal["stop", "pause", "cancel", "kill"]


@dataclass(frozen=True)
class Place:
    """A line of a program."""

    file: str
    line: int
    is_own: bool  # of the program itself, not of a library


@dataclass
class Process:
    """A trial's processes, from their start until all of them have ended."""

    key: str
    directory: str = ""  # in which its program works
    started: float = field(default_factory=time.monotonic)
    asked: Ask | None = None  # what the runner wants of it
    asked_at: float = 0.0
    killed: str | None = None  # why the runner ended it itself
    halted: bool = False  # ended without saving, because the user did not want to wait
    interrupted: bool = False  # by a signal, because it does not listen to us
    attempts_before: int = 0  # those in the store that are not its own
    sign_of_life: float = field(default_factory=time.monotonic)
    reported: float = 0.0  # when it last reported a validation
    cpu_seconds: float = 0.0  # what it had used
    cpu_looked: float = field(default_factory=time.monotonic)  # at this time
    stacks_shown: float | None = None
    errors: dict[int, str] = field(default_factory=dict)  # by rank: the last line of a traceback in its log, and where
    places: dict[int, Place] = field(default_factory=dict)  # by rank: where the traceback in its log leads
    first_failure: tuple[int, str] | None = None  # the rank that failed first, and what its launcher said of it
    no_retries: str | None = None  # the log policy that forbids to start it again
    lines: dict[int, int] = field(default_factory=dict)  # by rank
    mask: LineMask = field(default_factory=LineMask)  # hides the secrets that its environment has

    @property
    def last_error(self) -> str:
        """What its log says about why it failed. Of several ranks the first counts: others fail because of it."""
        if self.first_failure is None:
            return next(reversed(self.errors.values()), "")
        rank, words = self.first_failure
        return self.errors.get(rank, words)


@dataclass
class LiveTrial:
    """A trial; what is not in its row is what the runner remembers of it."""

    id: int
    number: int
    request_id: str
    hparams: dict[str, Any]
    seed: int
    bracket: int
    rungs: tuple[float, ...]
    goal: float | None
    state: TrialState
    source: str | None = None  # the checkpoint of another trial to begin with
    source_number: int | None = None  # the trial whose newest checkpoint that is to be
    runs: int = 0
    restarts: int = 0
    process: Process | None = None
    ended_by: Literal["stop", "finish", None] = None  # the searcher's last word, to be carried out at the goal
    suspended: bool = False  # by the searcher: it waits for being continued
    owes_pause: bool = False  # suspended, but not saved: it is started again to do so at its goal
    lost: int = 0  # how often its processes were lost, with the engine or by somebody's signal
    seen: tuple[int, int] = (0, -1)  # attempt and sequence number of the newest validation that was looked at
    last_step: int = -1  # its step
    steps: int = 0  # the largest step that it reported or saved
    last_value: tuple[float | None, float | None] | None = None  # its metric and time
    at_goal: tuple[float | None, float | None] | None = None  # the same, of one that waits for a decision
    decided_at: float = field(default_factory=time.monotonic)
    waiting_since: float | None = None  # at its goal, for earlier trials
    best: float | None = None
    values: list[float] = field(default_factory=list)  # what it last reported of the metric, for people who watch
    passed_hparams: dict[str, Any] | None = None  # what its program passed to `init()`; None until it begins to train
    progress: float | None = None
    seconds_before: float = 0.0  # of earlier starts
    warned: set[str] = field(default_factory=set)
    failure_without_report: str | None = None  # why its last attempt failed, if the trial has reported nothing
    repeated_error: str | None = None  # with which two attempts failed, so that it was not retried
    owes_restart: bool = False  # a restart is counted that was not made yet
    fatal: str | None = None  # a mistake of the experiment that this trial has shown

    @property
    def may_start(self) -> bool:
        ready = self.state in ("QUEUED", "PAUSED") and self.process is None and self.source_number is None
        return ready and self.at_goal is None and (not self.suspended or self.owes_pause)

    @property
    def reached(self) -> float:
        """The time of the farthest comparison that it came to."""
        passed = [rung for rung in self.rungs if self.goal is not None and rung < self.goal]
        if self.goal is not None and (self.ended_by is not None or self.suspended):
            passed.append(self.goal)
        return max(passed, default=0.0)

    @property
    def rung(self) -> int:
        """How many of its rungs it has passed."""
        return len(self.rungs) if self.goal is None else sum(rung < self.goal for rung in self.rungs)

    @property
    def seconds(self) -> float:
        now = 0.0 if self.process is None else time.monotonic() - self.process.started
        return self.seconds_before + now
