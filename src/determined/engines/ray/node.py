"""`Node`: the actor that runs the jobs of one experiment on one node, with a local engine.

Ray calls its methods from several threads. The engine belongs to one thread of the actor, which executes commands from
a queue and appends what happens to a list. The bridge fetches that list with one long-polled call (`events`), because
each call through Ray costs about a millisecond of CPU on both sides. Commands and events are numbered: a call whose
answer was lost is repeated, and executed once.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import secrets
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from determined.engines.base import Exited, Interpreter, Job
from determined.engines.local import LocalEngine
from determined.engines.ray.plain import decode_job, encode_event
from determined.engines.ray.run_files import RUNS, GrowingFiles
from determined.engines.relay_socket import RelaySocket
from determined.engines.slots import Slots
from determined.errors import DeterminedError, EngineError
from determined.machine import this_machine
from determined.paths import data_dir, made_private

# Variables that Ray sets for its own workers. OMP_NUM_THREADS and CUDA_VISIBLE_DEVICES would take CPUs and GPUs away
# from jobs, and PYTHONBREAKPOINT would let `breakpoint()` wait for Ray's debugger.
_OF_RAY = ("PYTHONBREAKPOINT", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_SECONDS_OF_A_POLL = 5.0
_SECONDS_BETWEEN_STATUS = 2.0
# Beyond this many unread events no output is read any more, so that jobs block on their pipes (back-pressure).
_MOST_EVENTS = 20_000
_SOCKETS = "sockets"  # a link to the directory of the engine's sockets, which need a shorter path


class NodeSetup(Protocol):
    """Prepares a node for an experiment. The runner names its class, because engines do not know experiments."""

    def prepare(self) -> Interpreter | None:
        """Unpack the code and run the startup hook; return the interpreter for jobs, or None for that of the node.

        Raises DeterminedError with the reason if the node cannot run jobs of this experiment.
        """

    def place(self, job: Job) -> Job:
        """Return a job with its working directory on this node, and the variables that depend on it."""

    def output(self) -> list[tuple[float, str]]:
        """Return times and lines of what the preparation wrote; only once."""


class Node:
    """The jobs of an experiment on one node. `settings` are plain data, see `bridge.py`."""

    def __init__(self, settings: dict[str, Any], code: bytes) -> None:
        self._settings, self._code = settings, code
        self._silence = float(settings["silence_seconds"])
        self._lock = threading.Condition()
        self._commands: list[list[Any]] = []
        self._last_command = 0
        self._events: list[tuple[int, list[Any]]] = []
        self._next_event = 1
        self._polled = time.monotonic()
        self._is_ending = False
        # Written to when a command arrives, so that the thread does not wait for the engine any longer.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()

    def tell(self, number: int, commands: list[list[Any]]) -> None:
        """Execute commands, unless a call with the same or a later number was received before."""
        with self._lock:
            if number <= self._last_command:
                return
            self._last_command = number
            self._commands += commands
        self._interrupt()

    def events(self, seen: int) -> list[tuple[int, list[Any]]]:
        """Return all events after the number `seen`, in order; wait a few seconds for the first one."""
        with self._lock:
            self._polled = time.monotonic()
            self._events = [event for event in self._events if event[0] > seen]
            # The thread may wait for space in the list.
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._events, _SECONDS_OF_A_POLL)
            self._polled = time.monotonic()
            return list(self._events)

    def beat(self) -> None:
        """Note that the bridge is alive, although it does not fetch events now."""
        self._polled = time.monotonic()

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
            root = _new_root(self._settings["experiment"])
        except OSError as error:
            self._append([["refused", f"its data directory cannot be used: {error}"]])
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
        """Prepare the node and serve until the bridge says that it is enough, or nothing any more."""
        environment = node_environment(os.environ)
        try:
            setup = _setup_of(self._settings, root, self._code, environment)
            interpreter = setup.prepare()
        # Of any class: the setup runs code of the user's machine, for example the import of an incomplete package.
        except Exception as error:  # noqa: BLE001
            kind = "" if isinstance(error, DeterminedError) else f"{type(error).__name__}: "
            self._append([["refused", f"{kind}{error}"]])
            while not self._is_over():
                # Until the bridge has read it.
                with self._lock:
                    self._lock.wait(1.0)
            return
        with LocalEngine(_slots(self._settings), environment) as engine:
            # The directory of an actor that was killed is deleted by the next one on this node.
            (root / _SOCKETS).symlink_to(engine.private_directory)
            if interpreter is not None:
                engine.use(interpreter)
            relay = RelaySocket(engine.private_directory)
            engine.watch(self._woken)
            engine.watch(relay.fileno())
            served = _Served(engine, relay, setup, self._settings["address"], root / "runs")
            self._append([["ready"]])
            try:
                while not self._is_over():
                    self._serve(served)
            finally:
                relay.close()

    def _serve(self, served: _Served) -> None:
        """Execute pending commands and collect events, for up to a second."""
        with self._lock:
            commands, self._commands = self._commands, []
        events = [event for command in commands for event in served.execute(command)]
        events += served.collect(0.0 if events else 1.0)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        if events:
            self._append(events)

    def _append(self, events: list[list[Any]]) -> None:
        """Number events and hand them to the next call of `events`; wait while too many are unread."""
        with self._lock:
            for event in events:
                self._events.append((self._next_event, event))
                self._next_event += 1
            self._lock.notify_all()
            self._lock.wait_for(lambda: len(self._events) < _MOST_EVENTS or self._is_over(), self._silence)

    def _is_over(self) -> bool:
        """Return whether the bridge needs this node no more, or has been silent longer than the limit."""
        return self._is_ending or time.monotonic() - self._polled > self._silence


class _Served:
    """The engine of a node, and the sockets of its workers. Used by one thread."""

    def __init__(self, engine: LocalEngine, relay: RelaySocket, setup: NodeSetup, address: str, runs: Path) -> None:
        self._engine, self._relay, self._setup = engine, relay, setup
        self._interface = interface_of(address)
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
        """Execute a command; return the event of a job that could not be started."""
        kind, *arguments = command
        if kind == "start":
            return self._start(decode_job(*arguments))
        self._handlers[kind](*arguments)
        return []

    def collect(self, seconds: float) -> list[list[Any]]:
        """Return what happened, waiting up to `seconds` for the first event."""
        found = self._engine.events(seconds)
        # Before the end of a job, so that its files are complete when the runner records the end.
        events = self._files.new_parts(all_of_them=True) if any(isinstance(one, Exited) for one in found) else []
        events += [encode_event(event) for event in found]
        for connection, body in self._relay.received():
            # A worker may send any bytes; the runner refuses what is no call.
            events.append(["store", connection, body.decode(errors="surrogateescape")])
        if time.monotonic() - self._status_sent >= _SECONDS_BETWEEN_STATUS:
            self._status_sent = time.monotonic()
            events += self._files.new_parts()
            for key in self._engine.placement():
                events.append(["status", key, self._engine.cpu_seconds(key), self._engine.has_listener(key)])
        return events

    def _start(self, job: Job) -> list[list[Any]]:
        """Start a job; return its exit as lost if that fails."""
        try:
            placed = self._setup.place(self._with_network(job))
            # Before the processes start, so that these lines come first in the log.
            lines = [["line", job.key, 0, "stderr", None, text, written] for written, text in self._setup.output()]
            self._engine.start(placed)
        except (EngineError, OSError) as error:
            line = ["line", job.key, 0, "stderr", "ERROR", f"the job could not be started: {error}", time.time()]
            return [line, encode_event(Exited(job.key, 1, None, False, 0.0, lost=True))]
        return lines

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


def node_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node without the variables that Ray sets for its own processes."""
    return {name: value for name, value in environment.items() if not name.startswith("RAY_") and name not in _OF_RAY}


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


def _new_root(experiment: str) -> Path:
    """Create and return a directory for this actor, and delete those that killed actors have left behind.

    An actor holds a lock on its directory. Two of one experiment may exist at once, while the older one is ending.
    """
    # By machine: several may share their home directories, and the locks of one may not be known to the others.
    home = made_private(made_private(data_dir() / "nodes") / this_machine())
    creating = _locked(home, wait=True)
    if creating is None:
        raise OSError(f"{home} was deleted")
    try:
        for path in home.iterdir():
            lock = _locked(path, wait=False)
            if lock is not None:
                with contextlib.suppress(OSError):  # killed before it had sockets
                    shutil.rmtree(os.readlink(path / _SOCKETS), ignore_errors=True)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
        root = home / f"{experiment}-{secrets.token_hex(4)}"
        root.mkdir(mode=0o700)
        # Open until this process ends, and not inherited by jobs.
        if _locked(root, wait=False) is None:
            raise OSError(f"{root} was deleted")
    finally:
        os.close(creating)
    return root


def _locked(directory: Path, *, wait: bool) -> int | None:
    """Open and lock a directory; None if another process holds the lock, or if it was deleted or replaced."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # It may have been deleted, and created anew, before the lock was acquired.
        if os.path.samestat(os.fstat(descriptor), os.stat(directory)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _slots(settings: Mapping[str, Any]) -> Slots:
    """Return the slots of this node: as many as Ray says it has, each with one thread unless a job has more CPUs."""
    # Which GPUs a job gets is part of the job, because Ray decides it.
    return Slots(settings["slots"], (), 1, settings["slots"])


def _setup_of(settings: Mapping[str, Any], root: Path, code: bytes, environment: Mapping[str, str]) -> NodeSetup:
    """Import the NodeSetup class that the runner names as `package.module:Class`, and return an instance of it."""
    module, _, name = settings["setup"].partition(":")
    setup: NodeSetup = getattr(importlib.import_module(module), name)(settings["data"], root, code, environment)
    return setup
