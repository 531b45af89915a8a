"""The interface of an engine (`Engine`), the jobs it runs and the events it returns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from determined.engines.command import Command


@dataclass(frozen=True)
class Interpreter:
    """The Python interpreter that runs jobs, and how their environment differs from that of the engine's process."""

    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    # Compared by LocalEngine.use(): equal interpreters keep the warm process.
    build: str = ""  # changes with the installed packages: a warm process of an older build must be replaced

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of `outer` with the changes of this interpreter applied."""
        kept = {name: value for name, value in outer.items() if name not in self.unset}
        return {**kept, **self.variables}


@dataclass(frozen=True)
class Job:
    """One start of a trial's processes. `environment` is merged into the environment of the engine's process."""

    key: str
    command: Command
    environment: dict[str, str]
    directory: Path
    slots: int


@dataclass(frozen=True)
class Exited:
    """Event: the main process of a job has ended, and all processes that it left behind were killed.

    `code` is 128 + n for a signal n. `lost` means that the job ended because the engine's warm process failed, so that
    the trial is not to blame.
    """

    key: str
    code: int
    signal: str | None
    out_of_memory: bool
    cpu_seconds: float
    lost: bool = False


@dataclass(frozen=True)
class Line:
    """Event: a worker of the job wrote a line to standard output or standard error.

    A line that is not finished is the present state of a progress bar, which the next line of its rank and stream
    replaces.
    """

    key: str
    rank: int
    stream: str
    level: str | None
    text: str
    written: float
    finished: bool = True


@dataclass(frozen=True)
class WakeupRequested:
    """Event: a worker of the job asks the runner to read the store."""

    key: str


Event = Exited | Line | WakeupRequested


class Engine(Protocol):
    """The slots of a machine and the jobs that run on them. All methods are called from one thread."""

    @property
    def slots(self) -> int:
        """The number of slots that this engine manages."""

    @property
    def ready(self) -> bool:
        """Whether `start` would return at once; otherwise it blocks until the engine has warmed up."""

    def free_slots(self) -> int:
        """Return the number of slots on which no job runs and on which a job may be started."""

    @property
    def wants_more_slots(self) -> bool:
        """Whether this engine was granted fewer slots than it could use, because other experiments hold them."""

    @property
    def granter_exited(self) -> bool:
        """Whether the process that grants slots to this engine has exited: jobs must save a checkpoint and exit."""

    def announce_demand(self, slots: int) -> None:
        """Announce how many slots could be used now, including those in use."""

    def preempted_jobs(self) -> list[str]:
        """Return the keys of jobs on slots that were preempted: these jobs must save a checkpoint and exit."""

    def use(self, interpreter: Interpreter) -> None:
        """Run all later jobs with this interpreter. Raises EngineError while a job is running."""

    def start(self, job: Job) -> list[int]:
        """Start a job and return the numbers of its slots.

        Raises EngineError if too few are free or the start fails.
        """

    def wake(self, key: str) -> None:
        """Wake the workers of a job, so that they read the store now."""

    def kill(self, key: str) -> None:
        """Kill a job and all processes that it started; an Exited event follows. Unknown keys are ignored."""

    def has_listener(self, key: str) -> bool:
        """Return whether a process of the job has a socket for wake-ups, and so reads requests from the store."""

    def interrupt(self, key: str) -> None:
        """Send SIGINT to a job's process group, as Ctrl-C on a terminal would."""

    def show_stacks(self, key: str) -> None:
        """Ask the workers of a job to print their Python stacks; the stacks arrive as Line events."""

    def cpu_seconds(self, key: str) -> float:
        """Return the CPU time that the processes of a job have used; a job whose CPU time hardly grows is hanging."""

    def events(self, timeout: float) -> list[Event]:
        """Return all pending events; wait up to `timeout` seconds for the first one.

        The lines of a job come before its Exited event. Output is read only here, so a job that writes faster than this
        is called blocks on its pipe (back-pressure).
        """

    def close(self) -> None:
        """Kill all jobs and release the engine's resources."""
