"""The processes of a trial in its runner, from their start until all of them have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from determined.config.secrets.line_mask import LineMask
from determined.stop_request import StopRequest


@dataclass(frozen=True)
class Place:
    """A line of source code."""

    file: str
    line: int
    is_own: bool  # part of the program, not of a library


@dataclass
class LogFindings:
    """Errors found in the log of a trial's processes. Only `logs.py` changes them."""

    errors: dict[int, str] = field(default_factory=dict)  # by rank: last line of a traceback, with its place
    places: dict[int, Place] = field(default_factory=dict)  # by rank: innermost place of a traceback
    first_failure: tuple[int, str] | None = None  # the rank that failed first, and the launcher's message about it
    no_retries: str | None = None  # the log policy that forbids a retry
    lines: dict[int, int] = field(default_factory=dict)  # by rank: number of stored lines
    # By rank and stream: the number of the stored line that is the present state of a progress bar.
    unfinished: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def last_error(self) -> str:
        """Why the processes failed.

        Of several ranks the first failure counts: the others fail because of it.
        """
        if self.first_failure is None:
            return next(reversed(self.errors.values()), "")
        rank, message = self.first_failure
        return self.errors.get(rank, message)


@dataclass
class Activity:
    """When the processes of a trial were last active. `timeouts.py` concludes from it whether they hang.

    All times are of the monotonic clock, so that a clock that is set forward does not kill a trial.
    """

    latest: float = field(default_factory=time.monotonic)  # last report, output or use of the CPU
    reported: float = 0.0  # last report of a validation
    cpu_seconds: float = 0.0  # CPU time at `cpu_checked`
    cpu_checked: float = field(default_factory=time.monotonic)
    stacks_shown: float | None = None  # since when the processes are suspected to hang

    def note_output(self) -> None:
        """Record that the processes have written a line."""
        self.latest = time.monotonic()

    def note_report(self) -> None:
        """Record that the processes have reported a validation."""
        self.latest = self.reported = time.monotonic()


@dataclass(frozen=True)
class Stopping:
    """How the processes of a trial were made to stop."""

    request: StopRequest | None = None  # newest request of the runner
    requested_at: float = 0.0  # by the monotonic clock
    kill_reason: str | None = None  # why the runner killed them after a time-out
    without_saving: bool = False  # killed at once, because the user did not want to wait
    interrupted: bool = False  # got SIGINT, because they do not read requests


@dataclass
class TrialProcess:
    """The processes of one start of a trial."""

    key: Final[str]  # the allocation: unique for each start
    directory: Final[str] = ""  # working directory of the program; empty if it runs on other machines
    attempts_before: Final[int] = 0  # number of attempts in the store that are not its own
    mask: Final[LineMask] = field(default_factory=LineMask)  # masks the secrets of its environment
    started: Final[float] = field(default_factory=time.monotonic)
    log: Final[LogFindings] = field(default_factory=LogFindings)
    activity: Final[Activity] = field(default_factory=Activity)
    _stopping: Stopping = field(default_factory=Stopping)
    _nodes: tuple[str, ...] = ()
    _directories: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each rank; empty if all run on the machine of the runner."""
        return self._nodes

    def inside(self, file: str) -> str | None:
        """Return a file of a traceback relative to the working directory; None if it is not in there."""
        roots = self._directories
        if self.directory:
            file, roots = os.path.realpath(file), (os.path.realpath(self.directory),)
        # Files of other machines are compared by their names alone.
        return next((os.path.relpath(file, root) for root in roots if file.startswith(root + os.sep)), None)

    def note_directories(self, directories: Sequence[str]) -> None:
        """Record the paths of the working directory on a node; each node of the processes has another one."""
        self._directories += tuple(directories)

    def place_on(self, nodes: Sequence[str]) -> None:
        """Record the node of each rank. `LiveTrial` calls this, together with the change of the trial's row."""
        self._nodes = tuple(nodes)

    @property
    def stopping(self) -> Stopping:
        """How the processes were made to stop so far."""
        return self._stopping

    def request_stop(self, request: StopRequest) -> None:
        """Record a request of the runner. `LiveTrial` calls this, together with the change of the trial's state."""
        self._stopping = replace(self._stopping, request=request, requested_at=time.monotonic())

    def note_interrupt(self) -> None:
        """Record that the processes got SIGINT in place of a request."""
        self._stopping = replace(self._stopping, interrupted=True)

    def note_kill(self, reason: str) -> None:
        """Record why the runner kills the processes."""
        self._stopping = replace(self._stopping, kill_reason=reason)

    def note_kill_without_saving(self) -> None:
        """Record that the processes are killed although they have not saved."""
        self._stopping = replace(self._stopping, without_saving=True)
