"""The jobs on the nodes of a cluster: when a job has ended, and with which result. Pure: no Ray, no I/O.

A job has one part on each node of its placement group. It has ended when all of its parts have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from determined.engines.base import Exited
from determined.engines.ray.placement import Share

# A part whose job has failed on another node hangs in a collective; it gets this long to print its own error.
SECONDS_BEFORE_KILL = 3.0
KILLED = 137
# In the message of torch about the port at which the ranks of several nodes meet.
_PORT_TAKEN = "EADDRINUSE"


@dataclass
class RunningJob:
    """A job and the parts of it that have not ended."""

    shares: tuple[Share, ...]
    exits: dict[str, Exited] = field(default_factory=dict)  # by node
    lost_node: str = ""
    cpu_seconds: dict[str, float] = field(default_factory=dict)  # by node
    has_listener: bool = False
    port_was_taken: bool = False  # another program took the port between its choice and its use

    def missing(self) -> list[str]:
        """Return the nodes whose part has not ended."""
        return [share.node for share in self.shares if share.node not in self.exits]

    def result(self) -> Exited:
        """Return the exit of the job from those of its parts: the first failure counts, as others follow from it."""
        exits = list(self.exits.values())
        first = next((one for one in exits if one.code != 0), exits[-1])
        # The trial is not to blame for a port that another program took: it is started again, with another port.
        lost = bool(self.lost_node) or first.lost or (self.port_was_taken and first.code != 0)
        return Exited(
            first.key,
            first.code,
            first.signal,
            any(one.out_of_memory for one in exits),
            sum(one.cpu_seconds for one in exits),
            lost,
            self.lost_node,
        )


class Jobs:
    """The jobs that have not ended, by their keys. Times are those of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._jobs: dict[str, RunningJob] = {}
        # When to kill the remaining parts of jobs. Few have an entry, and the engine looks at them with every message.
        self._kill_at: dict[str, float] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._jobs))

    def add(self, key: str, shares: Iterable[Share]) -> None:
        """Record a job that was started, with a part for each share."""
        self._jobs[key] = RunningJob(tuple(shares))

    def clear(self) -> None:
        """Forget all jobs."""
        self._jobs.clear()
        self._kill_at.clear()

    def shares(self, key: str) -> tuple[Share, ...]:
        """Return the shares of a job's group; empty for an unknown key."""
        return self._jobs[key].shares if key in self._jobs else ()

    def missing(self, key: str) -> list[str]:
        """Return the nodes on which parts of a job are running."""
        return self._jobs[key].missing() if key in self._jobs else []

    def has_listener(self, key: str) -> bool:
        """Return whether a worker of the job reads requests from the store; see `Engine.has_listener`."""
        return key in self._jobs and self._jobs[key].has_listener

    def cpu_seconds(self, key: str) -> float:
        """Return the CPU time that all parts of a job have reported."""
        return sum(self._jobs[key].cpu_seconds.values()) if key in self._jobs else 0.0

    def note_line(self, key: str, text: str) -> None:
        """Record it if the output of a job on several nodes says that its port is in use."""
        if len(self._jobs[key].shares) > 1 and _PORT_TAKEN in text:
            self._jobs[key].port_was_taken = True

    def note_listener(self, key: str) -> None:
        """Record that a worker of a job has sent a wake-up, so it also reads requests."""
        self._jobs[key].has_listener = True

    def note_status(self, node: str, key: str, cpu_seconds: float, has_listener: bool) -> None:
        """Record the CPU time of a part of a job, and whether one of its workers reads requests."""
        if key in self._jobs:
            self._jobs[key].cpu_seconds[node] = cpu_seconds
            self._jobs[key].has_listener |= has_listener

    def end_part(self, node: str, exited: Exited, now: float) -> Exited | None:
        """Record the end of a part; return the exit of its job if that was the last one."""
        job = self._jobs[exited.key]
        job.exits[node] = exited
        if job.missing():
            if exited.code != 0:
                self._kill_at.setdefault(exited.key, now + SECONDS_BEFORE_KILL)
            return None
        del self._jobs[exited.key]
        self._kill_at.pop(exited.key, None)
        return job.result()

    def lose_node(self, node: str, described: str, now: float) -> list[Exited]:
        """Record that all parts on a node were lost; return the exits of jobs that have ended with it."""
        ended = []
        for key, job in list(self._jobs.items()):
            if node in job.missing():
                job.lost_node = described
                # The other parts wait for ranks that do not exist any more.
                self._kill_at[key] = now
                lost = Exited(key, KILLED, "SIGKILL", False, 0.0, lost=True)
                if (result := self.end_part(node, lost, now)) is not None:
                    ended.append(result)
        return ended

    def overdue(self, now: float) -> list[str]:
        """Return the jobs whose remaining parts must be killed now, because another part has failed; each once."""
        keys = [key for key, at in self._kill_at.items() if now >= at]
        for key in keys:
            del self._kill_at[key]
        return keys
