"""The bridge: the child process of a runner that alone talks to Ray. It knows groups, nodes and messages, but no jobs.

It creates placement groups, a `NodeActor` on each node where a group was granted, and passes commands and events on
between the runner (a socket, see `bridge_process.py`) and these actors. When the runner ends, the socket closes and
this process exits; Ray then ends its actors, and with them all jobs, and returns its placement groups.
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
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import ray

from determined.engines.base import Event, Exited, Line
from determined.engines.ray.bridge.actors import NodeActors
from determined.engines.ray.bridge.groups import PlacementGroups
from determined.engines.ray.bridge.runner_connection import RunnerConnection
from determined.engines.ray.connecting import connect, first_line
from determined.engines.ray.encoding import encode_event
from determined.engines.ray.growth import grows
from determined.engines.ray.jobs import KILLED
from determined.engines.ray.placement import Share, node_names
from determined.engines.ray.refused_nodes import publish_refusals
from determined.kernel import signal_when_parent_ends

_SECONDS_BETWEEN_NODES = 1.0  # between looks at the nodes of the cluster
# Ray itself tries to reach a lost head for a minute, and ends this process then. Trials need that time to save.
_SECONDS_WITHOUT_HEAD = 5.0
_SECONDS_FOR_AUTOSCALER = 15.0  # it reports every 5 seconds, also on a cluster that was just started
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
    # A service manager or Slurm signals all processes at once. The trials save then, which needs the bridge until its
    # runner ends. Not before Ray was connected, because it sets a handler that exits.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if problem is not None:
        runner.send_now({"failed": problem})
        sys.exit(1)
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_Bridge(runner, request).run())
    # Without Ray's own shutdown, which waits for answers of nodes that may not exist any more.
    os._exit(0)


class _Bridge:
    """Groups, nodes and their actors of one experiment."""

    def __init__(self, runner: RunnerConnection, settings: dict[str, Any]) -> None:
        self._runner, self._settings = runner, settings
        self._nodes: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._delayed: dict[str, list[dict[str, Any]]] = {}  # commands for jobs that are being started
        self._described: dict[str, Any] = {}
        # Decided once: groups and nodes of one experiment must agree on what a slot is.
        self._kind = _slot_kind(ray.nodes())
        self._groups = PlacementGroups(
            settings["experiment"],
            settings["slots"],
            self._kind,
            single_node=settings["single_node"],
            on_granted=self._use_group,
            on_failed=self._lose_group,
            spawn=self._spawn,
        )
        # Stored once and fetched once by each node.
        code = ray.put(Path(settings["code"]).read_bytes())
        self._actors = NodeActors(runner, settings, code, spawn=self._spawn, kill=self._groups.kill)

    async def run(self) -> None:
        """Serve messages of the runner until it closes the connection."""
        inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._runner.start(lambda message: loop.call_soon_threadsafe(inbox.put_nowait, message))
        await self._look_first()
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
        elif "refused" in message:
            self._spawn(self._publish(message["refused"]))
        elif "answers" in message:
            for node, commands in message["answers"].items():
                for command in commands:
                    self._actors.tell(node, command)

    async def _start_at_a_port(self, job: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        """Start a job whose ranks meet at a free port of its first node, then pass on commands that came meanwhile.

        Without a port, because the node was lost, report that the job was not started.
        """
        port = await self._actors.free_port(parts[0]["node"], parts[0]["actor"])
        delayed = self._delayed.pop(job["key"])
        if port is None:
            self._report_not_started(job["key"], parts)
            return
        self._start(job, parts, port)
        for message in delayed:
            self._tell(message)

    def _report_not_started(self, key: str, parts: list[dict[str, Any]]) -> None:
        """Report all parts of a job as lost, because its first node has no port for it."""
        text = "the job could not be started: its first node was lost, or has no free port"
        line = Line(key, 0, "stderr", "ERROR", text, time.time())
        for part in parts:
            is_first = part is parts[0]
            # Only the first node is to blame.
            exited = Exited(key, 1 if is_first else KILLED, None, False, 0.0, lost=True)
            events: list[Event] = [line, exited] if is_first else [exited]
            self._runner.send({"events": part["node"], "list": [encode_event(event) for event in events]})

    def _start(self, job: dict[str, Any], parts: list[dict[str, Any]], port: int) -> None:
        """Start the parts of a job. Not in the background: a kill that follows must not overtake it."""
        for part in parts:
            self._actors.start(part["node"], part["actor"], job, {**part, "port": port})

    def _tell(self, message: dict[str, Any]) -> None:
        """Pass a command for a job on to its nodes, or keep it until the job was started."""
        command = message["tell"]
        if command[1] in self._delayed:
            self._delayed[command[1]].append(message)
            return
        for node in message["nodes"]:
            self._actors.tell(node, command)

    async def _use_group(self, number: int, shares: tuple[Share, ...]) -> None:
        """Start the actors on the nodes of a granted group, and report the group to the runner."""
        if any(share.node not in self._nodes for share in shares):
            # A node that has just joined: its slots and its address are needed.
            self._describe_cluster(*await self._groups.patiently(partial(asyncio.to_thread, _look)))
        # A node that is not known left the cluster meanwhile, and its group with it.
        numbers = {
            share.node: self._actors.open(share.node, self._nodes[share.node])
            for share in shares
            if share.node in self._nodes
        }
        rows = [[one.node, one.slots, one.gpus, numbers.get(one.node, 0)] for one in shares]
        self._runner.send({"granted": number, "shares": rows})

    def _lose_group(self, number: int, reasons: dict[str, str]) -> None:
        """Report a group that could not be used, and the nodes that are the reason as lost."""
        self._runner.send({"failed group": number})
        for node, reason in reasons.items():
            # The jobs of a node whose actor answers are not affected: another group is requested, maybe there again.
            if node not in self._actors:
                self._runner.send({"lost": node, "reason": reason})

    async def _look_first(self) -> None:
        """Report the nodes of the cluster; if a trial does not fit, wait some seconds for an autoscaler first."""
        deadline = time.monotonic() + _SECONDS_FOR_AUTOSCALER
        while True:
            nodes, growing = _look()
            slots = [node["Resources"].get(self._kind, 0) for node in nodes if node["Alive"]]
            present = max(slots, default=0) if self._settings["single_node"] else sum(slots)
            if growing is not None or present >= self._settings["slots"] or time.monotonic() >= deadline:
                self._describe_cluster(nodes, growing)
                return
            await asyncio.sleep(_SECONDS_BETWEEN_NODES)

    async def _watch_nodes(self) -> None:
        """Report nodes that join or leave, and the loss of the head."""
        answered = time.monotonic()
        while True:
            try:
                # In a thread, because the call blocks while the head does not answer.
                nodes, growing = await asyncio.wait_for(asyncio.to_thread(_look), _SECONDS_WITHOUT_HEAD)
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
                        self._actors.lose(node["NodeID"], "Ray reports that the node has died")
                self._describe_cluster(nodes, growing)
            await asyncio.sleep(_SECONDS_BETWEEN_NODES)

    def _describe_cluster(self, nodes: list[dict[str, Any]], growing: bool | None) -> None:
        """Report the nodes of the cluster, and whether an autoscaler adds some, if that has changed."""
        alive = [node for node in nodes if node["Alive"]]
        addresses = [node["NodeManagerAddress"] for node in alive]
        names = node_names([node.get("NodeManagerHostname", "") for node in alive], addresses)
        slots = [int(node["Resources"].get(self._kind, 0)) for node in alive]
        ids = [node["NodeID"] for node in alive]
        rows = [list(one) for one in zip(ids, addresses, names, slots, strict=True)]
        self._nodes = {node: {"name": name, "address": address, "slots": slots} for node, address, name, slots in rows}
        described = {"cluster": rows, "kind": self._kind, "can_grow": bool(growing)}
        if described != self._described:
            self._described = described
            self._runner.send(described)

    async def _publish(self, refused: dict[str, str]) -> None:
        """Let `det cluster` show which nodes are not used."""
        # A cluster without a head answers no question, and its loss is reported by `_watch_nodes`.
        with contextlib.suppress(Exception):
            await self._groups.ask(partial(publish_refusals, self._settings["experiment"], refused))

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
        await self._actors.close(_SECONDS_TO_FINISH)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._publish({}), _SECONDS_TO_FINISH)
        await self._groups.close(_SECONDS_TO_FINISH)


def _slot_kind(nodes: list[dict[str, Any]]) -> str:
    """Return the resource of Ray that is a slot: GPUs if a node has some, as on a single machine."""
    return "GPU" if any(node["Alive"] and node["Resources"].get("GPU") for node in nodes) else "CPU"


def _look() -> tuple[list[dict[str, Any]], bool | None]:
    """Return the nodes of the cluster, and whether an autoscaler adds some; see `grows`."""
    return list(ray.nodes()), grows()
