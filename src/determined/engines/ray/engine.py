"""`RayEngine`: runs jobs on the nodes of a Ray cluster, through a bridge process that alone talks to Ray.

In the runner's process Ray would replace the handler of SIGTERM, start twenty threads, and end the process a minute
after the head of the cluster was lost.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from determined.engines.base import Event, Exited, Interpreter, Job, StoreCalls
from determined.engines.ray.bridge_process import BridgeProcess
from determined.engines.ray.placement import Group, Groups, Share
from determined.engines.ray.plain import decode_event, encode_job
from determined.engines.ray.run_files import RECORDED_RUNS, write_part
from determined.errors import EngineError, MissingExtraError
from determined.paths import runs_dir
from determined.plural import counted

logger = logging.getLogger("determined.engines")

_SECONDS_TO_CONNECT = 60.0
# A part whose job has failed elsewhere hangs in a collective; it gets this long to write what it has to say.
_SECONDS_BEFORE_KILL = 3.0
_KILLED = 137
_MOST_FAILED_STARTS = 3  # of the actor of a node, one after another
# In the message of torch about the port at which the ranks of several nodes meet.
_PORT_TAKEN = "EADDRINUSE"


@dataclass(frozen=True)
class Experiment:
    """The data of an experiment that nodes need. `setup` names a `NodeSetup` (`module:Class`), `data` are for it."""

    key: str
    setup: str
    data: dict[str, Any]
    code: Path  # an archive of the code


@dataclass
class _Node:
    """A node of the cluster."""

    address: str
    name: str
    slots: int
    ready: bool = False
    refused: str = ""
    failed_starts: int = 0  # consecutive ones of its actor
    failed_jobs: int = 0  # consecutive jobs that could not be started


@dataclass
class _Running:
    """A job and the parts of it that have not ended."""

    group: Group
    shares: tuple[Share, ...]
    exits: dict[str, Exited] = field(default_factory=dict)  # by node
    kill_at: float | None = None
    lost_node: str = ""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    has_listener: bool = False
    port_was_taken: bool = False  # another program took the port between its choice and its use

    def missing(self) -> list[str]:
        """Return the nodes whose part has not ended."""
        return [share.node for share in self.shares if share.node not in self.exits]


class RayEngine:
    """The slots that Ray grants to an experiment, and the jobs on them. Used by one thread."""

    def __init__(
        self,
        address: str | None,
        slots_per_job: int,
        experiment: Experiment,
        *,
        single_node: bool = False,
        silence_seconds: float = 20.0,
        bridge: Callable[[], BridgeProcess] = BridgeProcess,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            # Not imported here: only the bridge may load it.
            raise MissingExtraError('the engine ray needs the package ray: pip install "determined-pytorch[ray]"')
        self._groups = Groups(slots_per_job)
        self._single_node = single_node
        self._nodes: dict[str, _Node] = {}
        self._jobs: dict[str, _Running] = {}
        self._events: list[Event] = []
        self._wanted = 0
        self._withdrawn = ""
        self._can_grow = False
        self._kind = "CPU"
        self._serve: StoreCalls | None = None
        self._bridge = bridge()
        try:
            self._bridge.send(
                {
                    "connect": address,
                    "slots": slots_per_job,
                    "single_node": single_node,
                    "silence_seconds": silence_seconds,
                    "experiment": experiment.key,
                    "setup": experiment.setup,
                    "data": experiment.data,
                    "code": str(experiment.code),
                }
            )
            self._handle(self._bridge.receive(_SECONDS_TO_CONNECT))
        except BaseException:
            self._bridge.close()
            raise

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def spans_machines(self) -> bool:
        return True

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self._nodes.values() if not node.refused)

    @property
    def ready(self) -> bool:
        return True

    @property
    def wants_more_slots(self) -> bool:
        return self._groups.granted_slots() < self._wanted

    @property
    def granter_exited(self) -> bool:
        return bool(self._withdrawn)

    @property
    def reason_to_pause(self) -> str:
        return self._withdrawn

    def reason_not_to_fit(self, slots: int) -> str | None:
        """Return why no node, or not all of them together, could ever run a job of this size."""
        usable = [node for node in self._nodes.values() if not node.refused]
        present = max((node.slots for node in usable), default=0) if self._single_node else self.slots
        if slots <= present or self._can_grow:
            return None
        found = ", ".join(f"{node.name}: {node.refused or node.slots}" for node in self._nodes.values()) or "no nodes"
        where = "a node of the Ray cluster has at most" if self._single_node else "the Ray cluster has"
        return f"a trial wants {counted(slots, f'{self._kind} slot')}, {where} {present} ({found})"

    def where(self, key: str) -> list[str]:
        running = self._jobs.get(key)
        shares = () if running is None else running.shares
        return [self._name(share.node) for share in shares for _ in range(share.slots)]

    def serve_store(self, answer: StoreCalls) -> None:
        self._serve = answer

    def free_slots(self) -> int:
        return 0 if self._withdrawn else self._groups.slots_each * len(self._free())

    def announce_demand(self, slots: int) -> None:
        """Request a placement group for each job that could run, and return those that are not needed any more."""
        self._wanted = 0 if self._withdrawn else slots
        new, returned = self._groups.plan(self._wanted // self._groups.slots_each)
        if new or returned:
            refused = [number for number, node in self._nodes.items() if node.refused]
            self._bridge.send({"request": new, "return": returned, "exclude": refused})

    def preempted_jobs(self) -> list[str]:
        return []  # Ray takes slots back only together with their node

    def use(self, interpreter: Interpreter) -> None:
        """Ignore the interpreter of this machine: each node runs the startup hook itself, see `NodeSetup`."""

    def start(self, job: Job) -> list[int]:
        """Start a job on a free placement group; see `Engine.start`. A failure on a node is reported as lost."""
        if job.key in self._jobs:
            raise EngineError(f"{job.key} is already running")
        free = self._free()
        if not free or self._withdrawn:
            raise EngineError(f"{job.key} needs {counted(job.slots, 'slot')}: Ray has granted none that is free")
        group = free[0]
        group.job = job.key
        self._jobs[job.key] = _Running(group, group.shares)
        parts = [
            {
                "node": share.node,
                "rank": rank,
                "addresses": [self._nodes[one.node].address for one in group.shares],
                "slots": [one.slots for one in group.shares],
                "gpus": list(share.gpus),
            }
            for rank, share in enumerate(group.shares)
        ]
        # Copied to this machine while they grow, so that the store names directories of this machine.
        environment = {**job.environment, RECORDED_RUNS: str(runs_dir())}
        self._bridge.send({"start": encode_job(replace(job, environment=environment)), "parts": parts})
        return list(range(job.slots))

    def wake(self, key: str) -> None:
        self._tell(key, "wake")

    def kill(self, key: str) -> None:
        self._tell(key, "kill")

    def interrupt(self, key: str) -> None:
        self._tell(key, "interrupt")

    def show_stacks(self, key: str) -> None:
        self._tell(key, "stacks")

    def has_listener(self, key: str) -> bool:
        return key in self._jobs and self._jobs[key].has_listener

    def cpu_seconds(self, key: str) -> float:
        return sum(self._jobs[key].cpu_seconds.values()) if key in self._jobs else 0.0

    def events(self, timeout: float) -> list[Event]:
        """Return pending events; see `Engine.events`. Store calls of workers are answered here."""
        deadline = time.monotonic() + timeout
        while not self._events:
            self._kill_remaining_parts()
            wait = max(0.0, deadline - time.monotonic())
            if not self._bridge.has_message(wait):
                break
            # All messages that have arrived, so that their store calls share a transaction.
            received = []
            while self._bridge.has_message(0.0):
                received.append(self._bridge.receive(None))
            calls: list[tuple[int, str, int, bytes]] = []
            for message in received:
                calls += self._handle(message)
            self._answer(calls)
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """End the bridge: Ray then ends all actors and jobs, and returns the placement groups."""
        self._jobs.clear()
        self._bridge.close()

    def describe(self) -> dict[str, Any]:
        """Return nodes, jobs and pending groups as plain data, for commands that show the cluster."""
        return {
            "kind": self._kind,
            "nodes": [
                {"name": node.name, "address": node.address, "slots": node.slots, "refused": node.refused}
                for node in self._nodes.values()
            ],
            "jobs": {key: self.where(key) for key in self._jobs},
            "pending": [group.reason_for_waiting for group in self._groups.pending()],
        }

    def _free(self) -> list[Group]:
        return self._groups.free({number for number, node in self._nodes.items() if node.ready})

    def _name(self, node: str) -> str:
        return self._nodes[node].name if node in self._nodes else node[:12]

    def _tell(self, key: str, command: str) -> None:
        """Send a command to all nodes of a job whose part has not ended."""
        if key in self._jobs:
            self._bridge.send({"tell": [command, key], "nodes": self._jobs[key].missing()})

    def _handle(self, message: dict[str, Any] | None) -> list[tuple[int, str, int, bytes]]:
        """Handle a message of the bridge; return the store calls in it, see `_answer`."""
        if message is None:
            self._lose_everything(self._bridge.lost())
            return []
        if "failed" in message:
            raise EngineError(message["failed"])
        if "cluster" in message:
            self._note_cluster(message)
        elif "granted" in message:
            shares = [Share(node, slots, tuple(gpus)) for node, slots, gpus in message["shares"]]
            self._use_group(message["granted"], shares)
        elif "waiting" in message:
            self._groups.explain(message["waiting"], message["reason"])
        elif "lost" in message:
            self._lose_actor(message["lost"], message["reason"])
        elif "withdrawn" in message:
            self._withdrawn = self._withdrawn or message["withdrawn"]
        elif "events" in message:
            return self._handle_events(message["events"], message["list"])
        return []

    def _use_group(self, number: int, shares: list[Share]) -> None:
        """Record a granted group, or return it if it is not wanted any more or a node of it cannot be used."""
        usable = all(share.node in self._nodes and not self._nodes[share.node].refused for share in shares)
        if not usable:
            self._groups.forget(number)
        if not usable or not self._groups.grant(number, shares):
            self._return([number])

    def _note_cluster(self, message: dict[str, Any]) -> None:
        """Record the nodes that Ray knows now."""
        self._kind, self._can_grow = message["kind"], message["can_grow"]
        for number, address, name, slots in message["cluster"]:
            known = self._nodes.get(number, _Node(address, name, slots))
            self._nodes[number] = replace(known, address=address, name=name, slots=slots)
        present = {number for number, *_ in message["cluster"]}
        for number in set(self._nodes) - present:
            self._lose_jobs(number, "Ray has removed it")
            del self._nodes[number]

    def _handle_events(self, node: str, events: list[list[Any]]) -> list[tuple[int, str, int, bytes]]:
        """Handle events of one node in order; return its store calls."""
        calls = []
        for event in events:
            kind = event[0]
            if kind == "store":
                calls.append((0, node, event[1], event[2].encode(errors="surrogateescape")))
            elif kind == "ready" and node in self._nodes:
                self._nodes[node].ready = True
            elif kind == "refused" and node in self._nodes:
                self._refuse_node(node, event[1])
            elif kind == "file":
                write_part(runs_dir(), *event[1:])
            elif kind == "status":
                self._note_status(node, *event[1:])
            elif kind == "exited":
                exited = decode_event(event)
                assert isinstance(exited, Exited)
                self._note_exit(node, exited)
            elif len(event) > 1 and event[1] in self._jobs:
                self._note_signs(self._jobs[event[1]], event)
                self._events.append(decode_event(event))
        return calls

    def _note_signs(self, running: _Running, event: list[Any]) -> None:
        """Record what an event says about a job: it reads requests, or its ranks could not meet."""
        if event[0] == "wakeup":
            running.has_listener = True
        elif len(running.shares) > 1 and _PORT_TAKEN in event[5]:
            running.port_was_taken = True

    def _note_status(self, node: str, key: str, cpu_seconds: float, has_listener: bool) -> None:
        """Record the CPU time of a part of a job, and whether one of its workers reads requests."""
        if key in self._jobs:
            self._jobs[key].cpu_seconds[node] = cpu_seconds
            self._jobs[key].has_listener |= has_listener

    def _note_exit(self, node: str, exited: Exited) -> None:
        """Record the end of a part. The job has ended when all of its parts have."""
        running = self._jobs.get(exited.key)
        if running is None or node in running.exits:
            return
        self._count_failed_starts(node, exited)
        running.exits[node] = exited
        if running.missing():
            if exited.code != 0 and running.kill_at is None:
                running.kill_at = time.monotonic() + _SECONDS_BEFORE_KILL
            return
        del self._jobs[exited.key]
        self._groups.finish(exited.key)
        self._events.append(_combined(running))

    def _count_failed_starts(self, node: str, exited: Exited) -> None:
        """Use a node no more on which several jobs in a row could not be started: its disk may be full."""
        known = self._nodes.get(node)
        if known is None or exited.code == _KILLED:
            return
        known.failed_jobs = known.failed_jobs + 1 if exited.lost else 0
        if known.failed_jobs >= _MOST_FAILED_STARTS and not known.refused:
            self._refuse_node(node, "jobs could not be started there, see their logs")

    def _kill_remaining_parts(self) -> None:
        """Kill the parts of jobs of which another part has failed a few seconds ago."""
        now = time.monotonic()
        for key, running in self._jobs.items():
            if running.kill_at is not None and now >= running.kill_at:
                running.kill_at = None
                self._tell(key, "kill")

    def _lose_actor(self, node: str, reason: str) -> None:
        """Report the jobs on a node as lost. A node that still exists is used again, unless that fails repeatedly."""
        self._lose_jobs(node, reason)
        logger.warning("node %s of the Ray cluster was lost: %s", self._name(node), reason)
        known = self._nodes.get(node)
        if known is None:
            return
        known.failed_starts = 0 if known.ready else known.failed_starts + 1
        known.ready = False
        if known.failed_starts >= _MOST_FAILED_STARTS:
            self._refuse_node(node, f"its actor could not be started: {reason}")

    def _lose_jobs(self, node: str, reason: str) -> None:
        """Report the jobs on a node as lost, after their parts on other nodes have ended, and return its groups."""
        name = self._name(node)
        # Ray would move a group to another node, and hold slots there that are not used.
        self._return(self._groups.drop_node(node))
        for key, running in list(self._jobs.items()):
            if node in running.missing():
                running.lost_node = f"{name} ({reason})"
                # The other parts wait for ranks that do not exist any more.
                running.kill_at = time.monotonic()
                self._note_exit(node, Exited(key, _KILLED, "SIGKILL", False, 0.0, lost=True))

    def _return(self, groups: list[int]) -> None:
        if groups:
            self._bridge.send({"request": [], "return": groups, "exclude": []})

    def _refuse_node(self, node: str, reason: str) -> None:
        """Use a node no more, and return its placement groups."""
        known = self._nodes[node]
        known.refused = reason
        logger.warning("node %s of the Ray cluster is not used: %s", known.name, reason)
        self._return(self._groups.drop_node(node))
        # What remains may be too little for any trial: then the experiment would wait for ever.
        if (problem := self.reason_not_to_fit(self._groups.slots_each)) is not None:
            self._withdrawn = self._withdrawn or problem

    def _lose_everything(self, reason: str) -> None:
        """Report all jobs as lost, because the bridge has ended and Ray ends its actors with it."""
        self._withdrawn = self._withdrawn or reason
        for node in list(self._nodes):
            self._lose_jobs(node, reason)
        self._nodes.clear()

    def _answer(self, calls: list[tuple[int, str, int, bytes]]) -> None:
        """Execute store calls of workers together, and send the answers to their nodes."""
        if not calls or self._serve is None:
            return
        # The numbers of connections are unique on a node only.
        answers = self._serve([(index, body) for index, (_, _, _, body) in enumerate(calls)])
        by_node: dict[str, list[list[Any]]] = {}
        for index, body in answers:
            _, node, connection, _ = calls[index]
            by_node.setdefault(node, []).append(["answer", connection, body.decode(errors="surrogateescape")])
        self._bridge.send({"answers": by_node})


def _combined(running: _Running) -> Exited:
    """Return the exit of a job from those of its parts: the first failure counts, because others follow from it."""
    exits = list(running.exits.values())
    first = next((one for one in exits if one.code != 0), exits[-1])
    # The trial is not to blame for a port that another program took: it is started again, with another port.
    lost = bool(running.lost_node) or first.lost or (running.port_was_taken and first.code != 0)
    return Exited(
        first.key,
        first.code,
        first.signal,
        any(one.out_of_memory for one in exits),
        sum(one.cpu_seconds for one in exits),
        lost,
        running.lost_node,
    )
