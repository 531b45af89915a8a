"""`NodeJobs`: executes the commands for the jobs on a node, and collects what happens there as events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
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
_SECONDS_TO_COPY = 60.0  # before the end of a job is reported although files of it are missing
_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


class NodeJobs:
    """The engine of a node, and the sockets of its workers. Used by one thread."""

    def __init__(
        self,
        engine: LocalEngine,
        relay: RelaySocket,
        setup: NodeSetup,
        *,
        name: str,
        address: str,
        runs: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._engine, self._relay, self._setup = engine, relay, setup
        self._name, self._interface = name, interface_of(address)
        self._environment = environment
        self._runs = runs
        self._status_sent = time.monotonic()
        self._files = GrowingFiles(runs)
        # Ends of jobs whose files are still being copied, and since when there are any.
        self._ended: list[Exited] = []
        self._ended_since = 0.0
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
        found = self._engine.events(0.0 if self._ended else seconds)
        events = [encode_event(event) for event in found if not isinstance(event, Exited)]
        ended = [event for event in found if isinstance(event, Exited)]
        if ended and not self._ended:
            self._ended_since = time.monotonic()
        self._ended += ended
        if self._ended:
            events += self._copy_then_report_ends()
        for connection, body in self._relay.received():
            events.append(encode_call(connection, body))
        if time.monotonic() - self._status_sent >= _SECONDS_BETWEEN_STATUS:
            self._status_sent = time.monotonic()
            events += self._files.new_parts(self._engine.placement())
            for key in self._engine.placement():
                events.append(["status", key, self._engine.cpu_seconds(key), self._engine.has_listener(key)])
        return events

    def _copy_then_report_ends(self) -> list[list[Any]]:
        """Return the next parts of files, and with the last of them the ends of jobs.

        When the runner records the end of a job, its files are complete. If there are too many of them, its log says
        so.
        """
        events = self._files.new_parts(self._engine.placement())
        is_late = time.monotonic() - self._ended_since > _SECONDS_TO_COPY
        if self._files.is_behind and not is_late:
            return events
        for event in self._ended:
            if self._files.is_behind:
                text = (
                    f"its TensorBoard files were not completely copied from this node in {_SECONDS_TO_COPY:g} s; the "
                    "rest follows while the experiment runs"
                )
                events.append(["line", event.key, 0, "stderr", "WARNING", f"WARNING: {text}", time.time()])
            events.append(encode_event(event))
        self._ended = []
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
            for name in _INTERFACE_VARIABLES:
                # Only if neither the job nor the node itself names one.
                if name not in job.environment and name not in self._environment:
                    added[name] = self._interface
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
