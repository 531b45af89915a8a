"""The interface of an engine (`Engine`), the jobs it runs and the events it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
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
class Part:
    """The share of a job that runs on one node. Addresses and slots are those of all its nodes, by rank."""

    rank: int
    addresses: tuple[str, ...]
    slots: tuple[int, ...]
    port: int  # on the first node, where the ranks of all nodes meet
    gpus: tuple[str, ...] = ()  # of this node, as CUDA_VISIBLE_DEVICES names them; empty on CPUs


@dataclass(frozen=True)
class Job:
    """One start of a trial's processes. `environment` is merged into the environment of the engine's process."""

    key: str
    command: Command
    environment: dict[str, str]
    directory: Path
    slots: int  # on all nodes together
    part: Part | None = None  # None if all its slots are on the engine's machine

    @property
    def slots_here(self) -> int:
        """The number of slots on the machine of the engine that gets this job."""
        return self.slots if self.part is None else self.part.slots[self.part.rank]

    @property
    def first_rank(self) -> int:
        """The rank of the first worker of this job on the machine of the engine that gets it."""
        return 0 if self.part is None else sum(self.part.slots[: self.part.rank])


@dataclass(frozen=True)
class Exited:
    """Event: the main process of a job has ended, and all processes that it left behind were killed.

    `code` is 128 + n for a signal n. `lost` means that the job ended because the engine's warm process or its node
    failed, so that the trial is not to blame.
    """

    key: str
    code: int
    signal: str | None
    out_of_memory: bool
    cpu_seconds: float
    lost: bool = False
    lost_node: str = ""  # the node with which the job was lost, if any


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


@dataclass(frozen=True)
class Placed:
    """Event: a job works in a directory of another machine, under these paths, which its lines may name."""

    key: str
    directories: tuple[str, ...]


Event = Exited | Line | WakeupRequested | Placed

StoreCalls = Callable[[Sequence[tuple[int, bytes]]], tuple[list[tuple[int, bytes]], list[str]]]
"""A function that executes calls of workers on the store; calls and answers have the number of a connection.

It also returns the keys of the jobs whose reports the runner must read now, as after a `WakeupRequested`.
"""


class Engine(Protocol):
    """The slots of a machine and the jobs that run on them. All methods are called from one thread."""

    @property
    def slots(self) -> int:
        """The number of slots that this engine manages."""

    @property
    def spans_machines(self) -> bool:
        """Whether jobs may run on other machines than this one, which cannot open files of this one."""

    def reason_not_to_fit(self, slots: int) -> str | None:
        """Return why a job with this many slots can never run, naming what there is; None if it can."""

    def where(self, key: str) -> list[str]:
        """Return the node of each rank of a running job; empty for an unknown key."""

    def serve_store(self, answer: StoreCalls) -> None:
        """Answer store calls of workers on other machines with this function. Ignored if there are no such workers."""

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

    @property
    def reason_to_pause(self) -> str:
        """Why the experiment must stay paused after the slots are withdrawn; empty if it is resumed by the queue."""

    @property
    def reason_to_wait(self) -> str:
        """Why slots that could be used are not free yet, in words; empty if that is said elsewhere."""

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

        The lines of a job come before its Exited event, and after Placed if it runs on other machines. Output is read
        only here, so a job that writes faster than this is called blocks on its pipe (back-pressure).
        """

    def close(self) -> None:
        """Kill all jobs and release the engine's resources."""
