"""`NodeJobs`: executes the commands for the jobs on a node, and collects what happens there as events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from determined.engines.base import Event, Exited, Job, Line, Placed
from determined.engines.local import LocalEngine
from determined.engines.ray.encoding import decode_job, encode_event
from determined.engines.ray.node.setup import NodeSetup
from determined.engines.ray.run_files import RUNS, GrowingFiles
from determined.engines.ray.store_calls import encode_call
from determined.engines.relay_socket import RelaySocket
from determined.errors import EngineError

_SECONDS_BETWEEN_STATUS = 2.0


class NodeJobs:
    """The engine of a node, and the sockets of its workers. Used by one thread."""

    def __init__(
        self, engine: LocalEngine, relay: RelaySocket, setup: NodeSetup, *, name: str, address: str, runs: Path
    ) -> None:
        self._engine, self._relay, self._setup = engine, relay, setup
        self._name, self._interface = name, interface_of(address)
        self._runs = runs
        self._status_sent = time.monotonic()
        self._files = GrowingFiles(runs)
        self._handlers: dict[str, Callable[..., None]] = {
            "kill": engine.kill,
            "wake": engine.wake,
            "interrupt": engine.interrupt,
            "stacks": engine.show_stacks,
            "answer": lambda connection, body: relay.send(connection, body.encode(errors="surrogateescape")),
        }

    def execute(self, command: list[Any]) -> list[list[Any]]:
        """Execute a command; return its events: those of a start, or the exit of a job that could not be started."""
        kind, *arguments = command
        if kind == "start":
            return self._start(decode_job(*arguments))
        self._handlers[kind](*arguments)
        return []

    def collect(self, seconds: float) -> list[list[Any]]:
        """Return new events of jobs, files and store calls, waiting up to `seconds` for the first of a job."""
        found = self._engine.events(seconds)
        # Before the end of a job, so that its files are complete when the runner records the end.
        events = self._files.new_parts(all_of_them=True) if any(isinstance(one, Exited) for one in found) else []
        events += [encode_event(event) for event in found]
        for connection, body in self._relay.received():
            events.append(encode_call(connection, body))
        if time.monotonic() - self._status_sent >= _SECONDS_BETWEEN_STATUS:
            self._status_sent = time.monotonic()
            events += self._files.new_parts()
            for key in self._engine.placement():
                events.append(["status", key, self._engine.cpu_seconds(key), self._engine.has_listener(key)])
        return events

    def _start(self, job: Job) -> list[list[Any]]:
        """Start a job and return its directory and lines for its log.

        If that fails, return its exit as lost, which is not a restart, after a line with the reason.
        """
        rank = job.first_rank
        try:
            placed = self._setup.place(self._with_network(job))
            # Before the processes start, so that these lines come first in the log.
            lines = [Line(job.key, rank, "stderr", None, text, written) for written, text in self._setup.output()]
            self._engine.start(placed)
        except (EngineError, OSError) as error:
            text = f"the job could not be started on {self._name}: {error}"
            said: list[Event] = [
                Line(job.key, rank, "stderr", "ERROR", text, time.time()),
                Exited(job.key, 1, None, False, 0.0, lost=True),
            ]
            return [encode_event(event) for event in said]
        # Both, as tracebacks may name either; only this machine can follow its links.
        paths = dict.fromkeys((os.path.abspath(placed.directory), os.path.realpath(placed.directory)))
        return [encode_event(Placed(job.key, tuple(paths))), *map(encode_event, lines)]

    def _with_network(self, job: Job) -> Job:
        """Return the job with the store's socket, and the network interface through which its nodes are connected."""
        added = {RUNS: str(self._runs)}
        if job.environment.get("DET_STORE") == "relay:":
            added["DET_STORE"] = f"relay:{self._relay.path}"
        if job.part is not None and len(job.part.addresses) > 1 and self._interface is not None:
            # Without it Gloo takes the interface of the host name, which is often the loopback interface.
            for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
                added[name] = job.environment.get(name, self._interface)
        return Job(job.key, job.command, {**job.environment, **added}, job.directory, job.slots, job.part)


def interface_of(address: str) -> str | None:
    """Return the name of the network interface with this address, or None if there is none."""
    import psutil

    if address.startswith("127."):
        # All of 127.0.0.0/8 belongs to the loopback interface, which lists only 127.0.0.1.
        address = "127.0.0.1"
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == address for one in addresses):
            return str(name)
    return None
