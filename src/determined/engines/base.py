"""What every engine offers: jobs are started, watched and ended; what happens to them comes back as events."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from determined.engines.command import Command


@dataclass(frozen=True)
class Interpreter:
    """The Python that runs jobs, and how their environment differs from that of the engine's process."""

    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    build: str = ""  # changes when packages of the same Python have changed, so that a warm process is outdated

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of `outer` with the changes of this interpreter applied."""
        kept = {name: value for name, value in outer.items() if name not in self.unset}
        return {**kept, **self.variables}


@dataclass(frozen=True)
class Job:
    """One start of a trial. The environment is added to that of the engine's own process."""

    key: str
    command: Command
    environment: dict[str, str]
    directory: Path
    slots: int


@dataclass(frozen=True)
class Exited:
    """A job's main process has ended, and all that it left behind was ended too.

    `code` is 128 + n for a signal n. `lost`: it ended because the engine failed, not by its own doing.
    """

    key: str
    code: int
    signal: str | None
    out_of_memory: bool
    cpu_seconds: float
    lost: bool = False


@dataclass(frozen=True)
class Line:
    """A line that a worker of the job wrote."""

    key: str
    rank: int
    stream: str
    level: str | None
    text: str
    written: float


@dataclass(frozen=True)
class Rang:
    """A worker of the job wants the runner to look at the store."""

    key: str


Event = Exited | Line | Rang


class Engine(Protocol):
    """Slots, and the jobs on them. All methods are called by one thread."""

    @property
    def slots(self) -> int:
        """How many there are."""

    @property
    def ready(self) -> bool:
        """Whether a job would begin at once; else `start` waits until it does."""

    def free_slots(self) -> int:
        """How many of them no job has."""

    @property
    def short(self) -> bool:
        """Whether there are fewer slots for us than we said we could use: others have them."""

    @property
    def left_alone(self) -> bool:
        """Whether the one who gave us slots is gone: jobs are to save and leave."""

    def want(self, slots: int) -> None:
        """Say how many could be used now, those that are used among them."""

    def taken_back(self) -> list[str]:
        """The keys of the jobs on slots that others shall have: they are to save and leave."""

    def use(self, interpreter: Interpreter) -> None:
        """Run all later jobs with this interpreter. EngineError while a job is running."""

    def start(self, job: Job) -> list[int]:
        """Start a job and say on which slots; EngineError when there are too few, or when it cannot be started."""

    def ring(self, key: str) -> None:
        """Make the job's workers look at the store."""

    def kill(self, key: str) -> None:
        """End the job now, with everything that it started; Exited follows. Unknown keys are ignored."""

    def listens(self, key: str) -> bool:
        """Whether a process of the job waits for being rung."""

    def interrupt(self, key: str) -> None:
        """Send the job what Ctrl-C on a terminal would."""

    def show_stacks(self, key: str) -> None:
        """Let the job's workers write where they are: their Python stacks come as lines."""

    def cpu_seconds(self, key: str) -> float:
        """What the processes of a job have used so far; hardly more after a while means that it hangs."""

    def events(self, timeout: float) -> list[Event]:
        """All that has happened; waits for the first event at most that long.

        The lines of a job come before its Exited. Jobs that write faster than this is called have to wait.
        """

    def close(self) -> None:
        """End what is left."""
