"""The bridge: the child process of a runner that alone talks to Ray. It knows groups, nodes and messages, but no jobs.

It creates placement groups, an actor `Node` on each node where a group was granted, and passes commands and events on
between the runner (a socket, see `engine.py`) and these actors. When the runner ends, the socket closes and this
process exits; Ray then ends its actors, and with them all jobs, and returns its placement groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import ray
from ray.exceptions import ActorDiedError, ActorUnschedulableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from determined.engines.kernel import signal_when_parent_ends
from determined.engines.ray.bridge_groups import PlacementGroups
from determined.engines.ray.connecting import connect, first_line
from determined.engines.ray.node import Node
from determined.engines.ray.placement import Share, node_names
from determined.engines.ray.runner_connection import RunnerConnection

_SECONDS_BETWEEN_NODES = 1.0  # between looks at the nodes of the cluster
# Ray itself tries to reach a lost head for a minute, and ends this process then. Trials need that time to save.
_SECONDS_WITHOUT_HEAD = 5.0
_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_TO_FINISH = 3.0  # in which nodes clean up at the end


def main(connection: int, parent: int) -> NoReturn:
    """Serve the runner at the other end of this socket until it ends."""
    signal_when_parent_ends(signal.SIGKILL)
    # The parent may have ended before the kernel was asked to send a signal for that.
    if os.getppid() != parent:
        os._exit(1)
    runner = RunnerConnection(socket.socket(fileno=connection))
    request = runner.receive()
    if request is None:
        sys.exit(0)
    problem = connect(request["connect"])
    if problem is not None:
        runner.send_now({"failed": problem})
        sys.exit(1)
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_Bridge(runner, request).run())
    # Without Ray's own shutdown, which waits for answers of nodes that may not exist any more.
    os._exit(0)


class _NodeActor:
    """An actor `Node` of this experiment, and what was sent to and received from it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.answered = time.monotonic()
        self.commands: list[list[Any]] = []
        self.has_commands = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def tell(self, command: list[Any]) -> None:
        """Queue a command; those that are queued while a call is under way travel together."""
        self.commands.append(command)
        self.has_commands.set()


class _Bridge:
    """Groups, nodes and their actors of one experiment."""

    def __init__(self, runner: RunnerConnection, settings: dict[str, Any]) -> None:
        self._runner, self._settings = runner, settings
        self._silence = float(settings["silence_seconds"])
        self._actors: dict[str, _NodeActor] = {}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._delayed: dict[str, list[dict[str, Any]]] = {}  # commands for jobs that are being started
        self._described: list[Any] = []
        # Decided once: groups and nodes of one experiment must agree on what a slot is.
        self._kind = _slot_kind(_ray_nodes())
        self._groups = PlacementGroups(
            settings["experiment"],
            settings["slots"],
            self._kind,
            single_node=settings["single_node"],
            on_granted=self._use_group,
            on_waiting=lambda number, reason: runner.send({"waiting": number, "reason": reason}),
        )
        # Stored once and fetched once by each node.
        self._code = ray.put(Path(settings["code"]).read_bytes())

    async def run(self) -> None:
        """Serve messages of the runner until it closes the connection."""
        inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._runner.start(lambda message: loop.call_soon_threadsafe(inbox.put_nowait, message))
        self._describe_cluster(_ray_nodes())
        self._spawn(self._watch_nodes())
        self._spawn(self._groups.serve())
        while (message := await inbox.get()) is not None:
            self._handle(message)
        await self._close()

    def _handle(self, message: dict[str, Any]) -> None:
        """Carry out a message of the runner."""
        if "request" in message:
            for number in message["return"]:
                self._groups.give_back(number)
            for number in message["request"]:
                self._groups.request(number, message["exclude"])
        elif "start" in message and len(message["parts"]) > 1:
            self._delayed[message["start"]["key"]] = []
            self._spawn(self._start_at_a_port(message["start"], message["parts"]))
        elif "start" in message:
            self._start(message["start"], message["parts"], 0)
        elif "tell" in message:
            self._tell(message)
        elif "answers" in message:
            for node, commands in message["answers"].items():
                for command in commands:
                    if node in self._actors:
                        self._actors[node].tell(command)

    async def _start_at_a_port(self, job: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        """Start a job whose ranks meet at a free port of its first node, then pass on what was said to it meanwhile."""
        port = 0
        if parts[0]["node"] in self._actors:
            # If the node is lost, that is reported when its events are fetched.
            with contextlib.suppress(RayError):
                port = await self._actors[parts[0]["node"]].handle.free_port.remote()
        self._start(job, parts, port)
        for message in self._delayed.pop(job["key"]):
            self._tell(message)

    def _start(self, job: dict[str, Any], parts: list[dict[str, Any]], port: int) -> None:
        """Start the parts of a job. Not in the background: a kill that follows must not overtake it."""
        for part in parts:
            if part["node"] in self._actors:
                self._actors[part["node"]].tell(["start", job, {**part, "port": port}])

    def _tell(self, message: dict[str, Any]) -> None:
        """Pass a command for a job on to its nodes, or keep it until the job was started."""
        command = message["tell"]
        if command[1] in self._delayed:
            self._delayed[command[1]].append(message)
            return
        for node in message["nodes"]:
            if node in self._actors:
                self._actors[node].tell(command)

    # Nodes

    async def _use_group(self, number: int, shares: tuple[Share, ...]) -> None:
        """Start the actors of the nodes of a granted group, and report it."""
        if any(share.node not in self._nodes for share in shares):
            # A node that has just joined: its slots and its address are needed.
            self._describe_cluster(await asyncio.to_thread(_ray_nodes))
        for share in shares:
            self._open_node(share.node)
        self._runner.send({"granted": number, "shares": [[one.node, one.slots, one.gpus] for one in shares]})

    def _open_node(self, node: str) -> None:
        """Create the actor of a node, if there is none."""
        known = self._nodes.get(node)
        if node in self._actors or known is None:  # None: it left the cluster meanwhile, and its group with it
            return
        settings = {name: self._settings[name] for name in ("experiment", "setup", "data", "silence_seconds")} | {
            "node": node,
            "address": known["address"],
            "slots": known["slots"],
        }
        # Threads: one waits in `events` while the others accept commands.
        remote = ray.remote(Node).options(
            num_cpus=0,
            max_concurrency=3,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        actor = self._actors[node] = _NodeActor(remote.remote(settings, self._code))
        actor.tasks = [self._spawn(self._fetch_events(node, actor)), self._spawn(self._send_commands(node, actor))]

    async def _fetch_events(self, node: str, actor: _NodeActor) -> None:
        """Pass on the events of a node until it is lost."""
        seen = 0
        while self._actors.get(node) is actor:
            try:
                if self._runner.is_full:
                    # The node must know that it is still wanted, although its events are not fetched.
                    await asyncio.wait_for(actor.handle.beat.remote(), self._silence)
                    actor.answered = time.monotonic()
                    await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
                    continue
                # Long-polled: the node answers as soon as there is an event, or after some seconds.
                events = await asyncio.wait_for(actor.handle.events.remote(seen), self._silence)
            except (ActorDiedError, ActorUnschedulableError, RayTaskError) as error:
                self._lose_node(node, first_line(error))
                return
            except (RayError, TimeoutError) as error:
                # Not reachable now; it counts as lost if that lasts.
                if time.monotonic() - actor.answered > self._silence:
                    self._lose_node(node, f"no answer for {self._silence:g} s: {first_line(error)}")
                    return
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
                continue
            actor.answered = time.monotonic()
            if events:
                seen = events[-1][0]
                self._runner.send({"events": node, "list": [event for _, event in events]})

    async def _send_commands(self, node: str, actor: _NodeActor) -> None:
        """Send the queued commands of a node in batches, each until it has arrived."""
        number = 0
        while self._actors.get(node) is actor:
            await actor.has_commands.wait()
            actor.has_commands.clear()
            commands, actor.commands = actor.commands, []
            number += 1
            # Until the node has answered or is lost: a repeated number is executed once.
            while self._actors.get(node) is actor:
                try:
                    await asyncio.wait_for(actor.handle.tell.remote(number, commands), self._silence)
                    break
                except (RayError, TimeoutError):
                    await asyncio.sleep(_SECONDS_BETWEEN_TRIES)

    def _lose_node(self, node: str, reason: str) -> None:
        """Report a node as lost, and end its actor in case it still runs."""
        actor = self._actors.pop(node, None)
        if actor is None:
            return
        actor.has_commands.set()
        self._spawn(self._groups.kill(actor.handle))
        self._runner.send({"lost": node, "reason": reason})

    async def _watch_nodes(self) -> None:
        """Report nodes that join or leave, and the loss of the head."""
        answered = time.monotonic()
        while True:
            try:
                # In a thread, because the call blocks while the head does not answer.
                nodes = await asyncio.wait_for(asyncio.to_thread(_ray_nodes), _SECONDS_WITHOUT_HEAD)
            # Errors of Ray's C++ part have no common class.
            except Exception as error:  # noqa: BLE001
                if time.monotonic() - answered >= _SECONDS_WITHOUT_HEAD:
                    self._runner.send(
                        {"withdrawn": f"the head of the Ray cluster does not answer: {first_line(error)}"}
                    )
                    return
            else:
                answered = time.monotonic()
                for node in nodes:
                    if not node["Alive"]:
                        self._lose_node(node["NodeID"], "Ray reports that the node has died")
                self._describe_cluster(nodes)
            await asyncio.sleep(_SECONDS_BETWEEN_NODES)

    def _describe_cluster(self, nodes: list[dict[str, Any]]) -> None:
        """Report the nodes of the cluster if they have changed."""
        alive = [node for node in nodes if node["Alive"]]
        addresses = [node["NodeManagerAddress"] for node in alive]
        names = node_names([node.get("NodeManagerHostname", "") for node in alive], addresses)
        slots = [int(node["Resources"].get(self._kind, 0)) for node in alive]
        ids = [node["NodeID"] for node in alive]
        described = [list(one) for one in zip(ids, addresses, names, slots, strict=True)]
        self._nodes = {node: {"address": address, "slots": slots} for node, address, _, slots in described}
        if described != self._described:
            self._described = described
            self._runner.send({"cluster": described, "kind": self._kind, "can_grow": _can_grow()})

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        """Run a coroutine in the background; an unexpected error ends the bridge, which the runner reports."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def finished(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                traceback.print_exception(error)
                sys.stderr.flush()
                os._exit(1)

        task.add_done_callback(finished)
        return task

    async def _close(self) -> None:
        """Let the nodes delete what they have created, end all actors and return all groups."""
        actors, self._actors = list(self._actors.values()), {}
        if actors:
            # Not waited for any longer: Ray ends the actors together with this process in any case.
            await asyncio.wait([_finished(actor.handle) for actor in actors], timeout=_SECONDS_TO_FINISH)
        for actor in actors:
            self._spawn(self._groups.kill(actor.handle))
        await self._groups.close(_SECONDS_TO_FINISH)


def _finished(handle: Any) -> asyncio.Task[None]:
    """Return a task that waits until the actor of a node has cleaned up, or is lost."""

    async def finish() -> None:
        with contextlib.suppress(RayError):
            await handle.finish.remote()

    return asyncio.get_running_loop().create_task(finish())


def _slot_kind(nodes: list[dict[str, Any]]) -> str:
    """Return the resource of Ray that is a slot: GPUs if a node has some, as on a single machine."""
    return "GPU" if any(node["Alive"] and node["Resources"].get("GPU") for node in nodes) else "CPU"


def _ray_nodes() -> list[dict[str, Any]]:
    return list(ray.nodes())


def _can_grow() -> bool:
    """Return whether the user says that an autoscaler adds nodes for demand that no node can serve now."""
    return os.environ.get("DET_CLUSTER_GROWS", "").lower() in ("1", "true", "yes", "on")
