"""`NodeActor`: the actor that runs the jobs of one experiment on one node, with a local engine.

Ray calls its methods from several threads. The engine belongs to one thread of the actor, which executes commands from
a queue and appends what happens to a list. The bridge sends commands and fetches that list with one long-polled call
(`exchange`), because each call through Ray costs about a millisecond of CPU on both sides. Commands and events are
numbered: a call whose answer was lost is repeated, and executed once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from determined.engines.local import LocalEngine
from determined.engines.ray.encoding import characters
from determined.engines.ray.node.commands import NumberedCommands
from determined.engines.ray.node.jobs import NodeJobs
from determined.engines.ray.node.root import SOCKETS, new_root
from determined.engines.ray.node.setup import setup_of
from determined.engines.relay_socket import RelaySocket
from determined.engines.slots import Slots
from determined.errors import DeterminedError, EngineError
from determined.paths import DATA_DIR_VARIABLE

# Variables that Ray sets for its own workers. OMP_NUM_THREADS and CUDA_VISIBLE_DEVICES would take CPUs and GPUs away
# from jobs, and PYTHONBREAKPOINT would let `breakpoint()` wait for Ray's debugger.
_OF_RAY = ("PYTHONBREAKPOINT", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_LONGEST_POLL = 5.0  # seconds
# Beyond this many unread events no output is read any more, so that jobs block on their pipes (back-pressure).
_MOST_EVENTS = 20_000
_MOST_UNREAD_CHARACTERS = 64 * 2**20  # the same for their text: an event may contain a megabyte of a file
# Limits of one call, which must be answered in time and whose events every process on the way holds in memory.
_MOST_AT_ONCE = 2000
_MOST_CHARACTERS = 4 * 2**20


class NodeActor:
    """The jobs of an experiment on one node. `settings` are plain data, see `NodeActors.open`."""

    def __init__(self, settings: dict[str, Any], code: bytes) -> None:
        self._settings, self._code = settings, code
        self._silence = float(settings["silence_seconds"])
        self._lock = threading.Condition()
        self._commands = NumberedCommands()
        self._events: list[tuple[int, list[Any]]] = []
        self._unread_characters = 0
        self._next_event = 1
        self._polled = time.monotonic()
        self._is_ending = False
        # A pipe that is written to when a command arrives, so that the thread stops waiting for events of the engine.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()

    def tell(self, commands: list[tuple[int, list[Any]]]) -> None:
        """Queue commands for execution, and record that the bridge is alive although it may not fetch events now."""
        with self._lock:
            self._polled = time.monotonic()
            self._commands.add(commands)
        self._interrupt()

    def exchange(self, commands: list[tuple[int, list[Any]]], seen: int) -> list[tuple[int, list[Any]]]:
        """Queue commands, and return the next events after the number `seen`; wait a few seconds for the first."""
        if commands:
            self.tell(commands)
        with self._lock:
            self._polled = time.monotonic()
            read = next((index for index, (number, _) in enumerate(self._events) if number > seen), len(self._events))
            self._unread_characters -= sum(characters(event) for _, event in self._events[:read])
            del self._events[:read]
            # The thread may wait for space in the list.
            self._lock.notify_all()
            # Well within the time in which the bridge wants an answer.
            self._lock.wait_for(lambda: self._events, min(_LONGEST_POLL, self._silence / 3))
            self._polled = time.monotonic()
            return _first(self._events)

    def finish(self) -> None:
        """Kill all jobs and delete everything that was created on this node; return when that is done."""
        self._is_ending = True
        self._interrupt()
        with self._lock:
            self._lock.notify_all()
        self._thread.join()

    def free_port(self) -> int:
        """Return a TCP port of this node's address that no process listens on."""
        family, kind, *_, address = socket.getaddrinfo(self._settings["address"], 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
            return int(probe.getsockname()[1])

    def _interrupt(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full of unread wake-ups
            os.write(self._wake, b"!")

    def _run(self) -> None:
        """Thread: prepare the node, then serve commands and events until the actor ends."""
        try:
            root = new_root(self._settings["experiment"])
        # Also errors of the configuration, and of Python if the user has no home directory.
        except Exception as error:  # noqa: BLE001
            advice = (
                f"{DATA_DIR_VARIABLE} is {os.environ.get(DATA_DIR_VARIABLE, 'not set')} there: set it to an absolute "
                "path that can be written, before `ray start`"
            )
            self._refuse(EngineError(f"its data directory cannot be used: {str(error).rstrip('.')}; {advice}"))
            return
        try:
            self._serve_from(root)
        except Exception:  # noqa: BLE001
            # A defect, or a node without memory or descriptors. An actor that answers without a thread would keep its
            # slots for ever: the bridge must see that it ended, and Ray's log why.
            traceback.print_exc()
            self._is_ending = False
        finally:
            shutil.rmtree(root, ignore_errors=True)
        if not self._is_ending:
            # The bridge is silent: the experiment belongs to another runner by now, or has ended.
            os._exit(1)

    def _serve_from(self, root: Path) -> None:
        """Prepare the node and serve until the bridge ends the actor, or has been silent longer than the limit."""
        with contextlib.ExitStack() as opened:
            try:
                served = self._prepare(root, opened)
            # Of any class: the setup runs code of the user's machine, for example the import of an incomplete package.
            except Exception as error:  # noqa: BLE001
                self._refuse(error)
                return
            self._append([["ready"]])
            while not self._is_over():
                self._serve(served)

    def _refuse(self, error: Exception) -> None:
        """Report why this node cannot be used, in one line and then the details, and stay until that was read."""
        kind = "" if isinstance(error, DeterminedError) else f"{type(error).__name__}: "
        self._append([["refused", *f"{kind}{error}".splitlines()]])
        while not self._is_over():
            with self._lock:
                self._lock.wait(1.0)

    def _prepare(self, root: Path, opened: contextlib.ExitStack) -> NodeJobs:
        """Return the jobs of this node, with an engine and a socket for its workers that are closed with `opened`."""
        environment = node_environment(os.environ)
        setup = setup_of(self._settings, root, self._code, environment)
        interpreter = setup.prepare(self._is_over)
        self._code = b""  # unpacked now; it may be large, and this actor lives as long as the experiment runs
        server = self._settings["store_is_server"]
        engine = opened.enter_context(LocalEngine(_slots(self._settings), environment, store_is_server=server))
        # The directory of an actor that was killed is deleted by the next one on this node.
        (root / SOCKETS).symlink_to(engine.private_directory)
        if interpreter is not None:
            engine.use(interpreter)
        relay = opened.enter_context(contextlib.closing(RelaySocket(engine.private_directory)))
        engine.watch(self._woken)
        engine.watch(relay.fileno())
        name, address = self._settings["name"], self._settings["address"]
        runs = root / "runs"
        return NodeJobs(engine, relay, setup, name=name, address=address, runs=runs, environment=environment)

    def _serve(self, served: NodeJobs) -> None:
        """Execute pending commands and collect events, for up to a second."""
        with self._lock:
            commands = self._commands.take()
        events = [event for command in commands for event in served.execute(command)]
        events += served.collect(0.0 if events else 1.0)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        if events:
            self._append(events)

    def _append(self, events: list[list[Any]]) -> None:
        """Number events and hand them to the next call of `exchange`; wait while too many are unread."""
        with self._lock:
            for event in events:
                self._events.append((self._next_event, event))
                self._next_event += 1
                self._unread_characters += characters(event)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._has_space() or self._is_over(), self._silence)

    def _has_space(self) -> bool:
        """Return whether more events may be collected although these are unread."""
        return len(self._events) < _MOST_EVENTS and self._unread_characters < _MOST_UNREAD_CHARACTERS

    def _is_over(self) -> bool:
        """Return whether the bridge no longer needs this node, or has been silent longer than the limit."""
        return self._is_ending or time.monotonic() - self._polled > self._silence


def _first(events: list[tuple[int, list[Any]]]) -> list[tuple[int, list[Any]]]:
    """Return as many of the first events as one call may return, and at least one if there are any."""
    count = size = 0
    for _, event in events[:_MOST_AT_ONCE]:
        size += characters(event)
        if count and size > _MOST_CHARACTERS:
            break
        count += 1
    return events[:count]


def node_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node without the variables that Ray sets for its own processes."""
    return {name: value for name, value in environment.items() if not name.startswith("RAY_") and name not in _OF_RAY}


def _slots(settings: Mapping[str, Any]) -> Slots:
    """Return the slots of this node: as many as Ray says it has, each with one thread unless a job has more CPUs."""
    # Which GPUs a job gets is part of the job, because Ray decides it.
    return Slots(settings["slots"], (), 1, settings["slots"])
