"""`RayEngine`: runs jobs on the nodes of a Ray cluster, through a bridge process that alone talks to Ray.

In the runner's process Ray would replace the handler of SIGTERM, start twenty threads, and end the process a minute
after the head of the cluster was lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from determined.engines.base import Event, Exited, Interpreter, Job, Line, Placed, StoreCalls, WakeupRequested
from determined.engines.ray.bridge_process import BridgeProcess
from determined.engines.ray.encoding import decode_event, encode_job, encode_parts
from determined.engines.ray.jobs import KILLED, Jobs
from determined.engines.ray.nodes import Nodes
from determined.engines.ray.package import check_package
from determined.engines.ray.placement import Group, Groups, Share, most_groups
from determined.engines.ray.run_files import RECORDED_RUNS, write_part
from determined.engines.ray.store_calls import StoreCall, answered, decode_call
from determined.errors import EngineError
from determined.paths import runs_dir
from determined.sentences import counted

logger = logging.getLogger("determined.engines")

_SECONDS_TO_CONNECT = 60.0
# How long messages are collected before they are handled, for each running job: 20 ms for 1,000 jobs, which send
# several messages per millisecond. Each pass of the runner costs a transaction, which the collected messages share. The
# messages of a few jobs hardly wait.
_SECONDS_TO_COLLECT = 2e-5
_MOST_MESSAGES = 1000  # that are handled together: new ones may arrive as fast as they are read


@dataclass(frozen=True)
class NodeData:
    """The data that nodes need to run jobs. `setup` names a `NodeSetup` (`module:Class`), which gets `data`."""

    key: str  # of the experiment, for the names of directories and placement groups
    setup: str
    data: dict[str, Any]
    code: Path  # an archive of the code
    store_is_server: bool = False  # workers connect to the store themselves


class RayEngine:
    """The slots that Ray grants to an experiment, and the jobs on them. Used by one thread."""

    def __init__(
        self,
        address: str | None,
        slots_per_job: int,
        node_data: NodeData,
        *,
        single_node: bool = False,
        silence_seconds: float = 20.0,
        bridge: Callable[[], BridgeProcess] = BridgeProcess,
    ) -> None:
        check_package()
        self._groups = Groups(slots_per_job)
        self._nodes = Nodes(single_node)
        self._jobs = Jobs()
        self._events: list[Event] = []
        self._wanted = 0
        self._withdrawn = ""
        self._serve: StoreCalls | None = None
        self._runs = runs_dir()
        self._bridge = bridge()
        try:
            self._bridge.send(
                {
                    "connect": address,
                    "slots": slots_per_job,
                    "single_node": single_node,
                    "silence_seconds": silence_seconds,
                    "experiment": node_data.key,
                    "setup": node_data.setup,
                    "data": node_data.data,
                    "code": str(node_data.code),
                    "store_is_server": node_data.store_is_server,
                }
            )
            first = self._bridge.receive(_SECONDS_TO_CONNECT)
            if first is None:
                raise EngineError(self._bridge.lost())
            self._handle(first)
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
        return self._nodes.slots

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

    @property
    def reason_to_wait(self) -> str:
        """Why no group is free: their nodes are being prepared, or Ray has not granted any. Empty if nothing waits."""
        names = [self._nodes.name(node) for node in self._groups.nodes_to_wait_for(self._nodes.ready())]
        if names:
            return f"{', '.join(sorted(names))} must get the code and run the startup hook first, if there is one"
        return "Ray has not granted them; `det cluster` shows why" if self.wants_more_slots else ""

    def reason_not_to_fit(self, slots: int) -> str | None:
        """Return why the cluster cannot run a job with this number of slots; None if it can, now or after growing."""
        return self._nodes.reason_not_to_fit(slots)

    def where(self, key: str) -> list[str]:
        return [self._nodes.name(share.node) for share in self._jobs.shares(key) for _ in range(share.slots)]

    def serve_store(self, answer: StoreCalls) -> None:
        self._serve = answer

    def free_slots(self) -> int:
        return 0 if self._withdrawn else self._groups.slots_each * len(self._free())

    def announce_demand(self, slots: int) -> None:
        """Request placement groups for jobs that could run, and return those that are not needed any more."""
        self._wanted = 0 if self._withdrawn else slots
        most = most_groups(self._nodes.slots, self._groups.slots_each, can_grow=self._nodes.can_grow)
        new, returned = self._groups.plan(min(self._wanted // self._groups.slots_each, most))
        if new or returned:
            self._bridge.send({"request": new, "return": returned, "exclude": list(self._nodes.refused())})

    def preempted_jobs(self) -> list[str]:
        return []  # Ray takes slots back only together with their node

    def use(self, interpreter: Interpreter) -> None:
        """Ignore the interpreter of this machine: each node runs the startup hook itself, see `NodeSetup`."""

    def start(self, job: Job) -> list[int]:
        """Start a job on a free placement group; see `Engine.start`. A job that a node fails to start is lost."""
        if job.key in self._jobs:
            raise EngineError(f"{job.key} is already running")
        free = self._free()
        if not free or self._withdrawn:
            raise EngineError(f"{job.key} needs {counted(job.slots, 'slot')}: Ray has granted none that is free")
        group = free[0]
        group.job = job.key
        self._jobs.add(job.key, group.shares)
        parts = encode_parts(group.shares, [self._nodes.address(share.node) for share in group.shares])
        # Copied to this machine while they grow, so that the store names directories of this machine.
        environment = {**job.environment, RECORDED_RUNS: str(self._runs)}
        self._bridge.send({"start": encode_job(replace(job, environment=environment)), "parts": parts})
        for node, reason in self._nodes.refused().items():
            self._warn(job.key, self._refusal(node, reason))
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
        return self._jobs.has_listener(key)

    def cpu_seconds(self, key: str) -> float:
        return self._jobs.cpu_seconds(key)

    def events(self, timeout: float) -> list[Event]:
        """Return pending events; see `Engine.events`. Store calls of workers are answered here."""
        deadline = time.monotonic() + timeout
        has_handled_some = False
        while not self._events:
            self._kill_remaining_parts()
            wait = max(0.0, deadline - time.monotonic())
            # Most messages are not events for the runner, which has to return to its requests, signals and time limits.
            if (has_handled_some and not wait) or not self._bridge.has_message(wait):
                break
            has_handled_some = True
            time.sleep(_SECONDS_TO_COLLECT * len(self._jobs))
            # All messages that have arrived, so that their store calls share a transaction.
            received = [self._bridge.receive(None)]
            while self._bridge.has_message(0.0) and len(received) < _MOST_MESSAGES:
                received.append(self._bridge.receive(None))
            calls: list[StoreCall] = []
            for message in received:
                calls += self._handle(message)
            if calls and self._serve is not None:
                answers, reported = answered(calls, self._serve)
                self._bridge.send({"answers": answers})
                # Without waiting for the worker's own wake-up, which takes two more messages from its node.
                self._events += [WakeupRequested(key) for key in reported if key in self._jobs]
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """End the bridge: Ray then ends all actors and jobs, and returns the placement groups."""
        self._jobs.clear()
        self._bridge.close()

    def _free(self) -> list[Group]:
        return self._groups.free(self._nodes.ready())

    def _tell(self, key: str, command: str) -> None:
        """Send a command to all nodes of a job whose part has not ended."""
        if key in self._jobs:
            self._bridge.send({"tell": [command, key], "nodes": self._jobs.missing(key)})

    def _handle(self, message: dict[str, Any] | None) -> list[StoreCall]:
        """Handle a message of the bridge; return the store calls in it."""
        if message is None:
            self._lose_everything(self._bridge.lost())
            return []
        if "failed" in message:
            raise EngineError(message["failed"])
        if "cluster" in message:
            self._note_cluster(message)
        elif "granted" in message:
            shares = [Share(node, slots, tuple(gpus), actor) for node, slots, gpus, actor in message["shares"]]
            self._use_group(message["granted"], shares)
        elif "failed group" in message:
            # Requested again, elsewhere if its node is refused now.
            self._groups.forget(message["failed group"])
        elif "lost" in message:
            self._lose_actor(message["lost"], message["reason"])
        elif "withdrawn" in message:
            self._withdrawn = self._withdrawn or message["withdrawn"]
        elif "events" in message:
            return self._handle_events(message["events"], message["list"])
        return []

    def _use_group(self, number: int, shares: list[Share]) -> None:
        """Record a granted group; give it back to Ray if it is not wanted any more or a node of it cannot be used."""
        usable = all(self._nodes.is_usable(share.node) for share in shares)
        if not usable:
            self._groups.forget(number)
        if not usable or not self._groups.grant(number, shares):
            self._give_back([number])

    def _note_cluster(self, message: dict[str, Any]) -> None:
        """Record the nodes that Ray knows now."""
        self._nodes.kind, self._nodes.can_grow = message["kind"], message["can_grow"]
        for node in self._nodes.update(message["cluster"]):
            self._lose_jobs(node, "Ray has removed it")
            self._nodes.remove(node)

    def _handle_events(self, node: str, events: list[list[Any]]) -> list[StoreCall]:
        """Handle events of one node in order; return its store calls."""
        calls = []
        for event in events:
            kind = event[0]
            if kind == "store":
                calls.append(decode_call(node, event))
            elif kind == "ready":
                self._nodes.note_ready(node)
            elif kind == "refused" and node in self._nodes:
                self._refuse_node(node, *event[1:])
            elif kind == "file":
                write_part(self._runs, *event[1:])
            elif kind == "status":
                self._jobs.note_status(node, *event[1:])
            elif kind == "exited":
                exited = decode_event(event)
                assert isinstance(exited, Exited)
                self._note_exit(node, exited)
            elif len(event) > 1 and event[1] in self._jobs:
                self._note_event(decode_event(event))
        return calls

    def _note_event(self, event: Event) -> None:
        """Pass an event of a job on that is not its end, after recording what it says about the job."""
        if isinstance(event, Line):
            self._jobs.note_line(event.key, event.text)
        elif not isinstance(event, Placed):
            self._jobs.note_listener(event.key)
        self._events.append(event)

    def _note_exit(self, node: str, exited: Exited) -> None:
        """Record the end of a part of a job, and what it says about the node."""
        if node not in self._jobs.missing(exited.key):
            return
        # A job that was killed says nothing: it may have ended before it was started.
        if exited.code != KILLED and (reason := self._nodes.count_job(node, failed_to_start=exited.lost)):
            self._refuse_node(node, reason)
        result = self._jobs.end_part(node, exited, time.monotonic())
        if result is not None:
            self._finish(result)

    def _finish(self, result: Exited) -> None:
        """Report the end of a job; its group is free for the next one."""
        self._give_back(self._groups.finish(result.key))
        self._events.append(result)

    def _kill_remaining_parts(self) -> None:
        """Kill the parts of jobs of which another part has failed a few seconds ago."""
        for key in self._jobs.overdue(time.monotonic()):
            self._tell(key, "kill")

    def _lose_actor(self, node: str, reason: str) -> None:
        """Report the jobs on a node as lost. A node that still exists is used again, unless that fails repeatedly."""
        self._lose_jobs(node, reason)
        logger.warning("node %s of the Ray cluster was lost: %s", self._nodes.name(node), reason)
        if problem := self._nodes.count_lost_actor(node, reason):
            self._refuse_node(node, problem)

    def _lose_jobs(self, node: str, reason: str) -> None:
        """Give back a lost node's groups without a job, and report its jobs as lost.

        A job is reported when its parts on other nodes have ended; its group is given back then.
        """
        # Also groups that Ray would move to another node, where they would hold slots that are not used.
        self._give_back(self._groups.drop_node(node))
        for result in self._jobs.lose_node(node, f"{self._nodes.name(node)} ({reason})", time.monotonic()):
            self._finish(result)

    def _give_back(self, groups: list[int]) -> None:
        if groups:
            self._bridge.send({"request": [], "return": groups, "exclude": []})

    def _refuse_node(self, node: str, reason: str, *details: str) -> None:
        """Start no more jobs on a node, and return its placement groups when its current jobs have ended."""
        self._nodes.refuse(node, reason)
        for line in (self._refusal(node, reason), *details):
            logger.warning("%s", line)
        # `det cluster` shows it, and the logs of trials, whose users may not see the output of the runner.
        self._bridge.send({"refused": self._nodes.refused()})
        for key in self._jobs:
            for line in (self._refusal(node, reason), *details):
                self._warn(key, line)
        self._give_back(self._groups.drop_node(node))
        # If the remaining nodes are too small for a trial, the experiment would wait for ever.
        if (problem := self.reason_not_to_fit(self._groups.slots_each)) is not None:
            self._withdrawn = self._withdrawn or problem

    def _refusal(self, node: str, reason: str) -> str:
        return f"node {self._nodes.name(node)} of the Ray cluster is not used: {reason}"

    def _warn(self, key: str, text: str) -> None:
        """Write a warning to the log of a job."""
        self._events.append(Line(key, 0, "stderr", "WARNING", text, time.time()))

    def _lose_everything(self, reason: str) -> None:
        """Report all jobs as lost, because the bridge has ended and Ray ends its actors with it."""
        self._withdrawn = self._withdrawn or reason
        for node in self._nodes:
            self._lose_jobs(node, reason)
            self._nodes.remove(node)
