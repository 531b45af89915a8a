"""The engine that runs jobs on the slots of this machine."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from determined.engines import processes
from determined.engines.base import Event, Exited, Interpreter, Job, StoreCalls, WakeupRequested
from determined.engines.command import runnable
from determined.engines.job_environment import job_environment
from determined.engines.lines import Stream
from determined.engines.processes import count_memory_kills
from determined.engines.reservations import Reservation, SlotHolder
from determined.engines.slot_pool import SlotPool
from determined.engines.slots import Slots, find_slots, too_few_slots
from determined.engines.wakeups import RunnerWakeups
from determined.engines.warm.client import WarmProcess, WarmProcessLost
from determined.errors import EngineError
from determined.sentences import counted

# As shells report it; exit codes of signals are converted in the same way.
_KILLED = 128 + signal.SIGKILL
# Polling interval for slots that are missing: a file lock that another process releases sends no notification.
_SECONDS_BETWEEN_LOCK_ATTEMPTS = 0.25


@dataclass
class _Running:
    """A job that has not ended."""

    # Also the id of its session and process group, see `warm/job.py`.
    pid: int
    slots: list[int]
    streams: list[Stream]
    memory_kills: int
    killed: bool = False
    # Of all its processes when they were killed: their CPU time is not in the exit status of the main process.
    cpu_seconds: float = 0.0


class LocalEngine:
    """Starts each job as a fork of the warm process and reads its output. Used by one thread.

    `Engine` in `base.py` documents the methods that all engines have.
    """

    def __init__(
        self,
        slots: int | Slots | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        store_is_server: bool | None = None,  # None: as DET_STORE of the environment says
    ) -> None:
        named = "://" in environment.get("DET_STORE", "")
        self._store_is_server = named if store_is_server is None else store_is_server
        # Read at each use: programs change their environment, and jobs see it as it is when they start.
        self._environment = environment
        self._pool = SlotPool(slots if isinstance(slots, Slots) else find_slots(slots, environment))
        self._jobs: dict[str, _Running] = {}
        self._events: list[Event] = []
        self._memory_kills = 0  # kills by the kernel that were already attributed to a job
        self._wakeups = RunnerWakeups()
        self._selector = selectors.DefaultSelector()
        # Registered with itself as data, so that `_collect_events` can tell the sources apart.
        self._selector.register(self._wakeups, selectors.EVENT_READ, self._wakeups)
        self._watched: list[int] = []
        self._interrupted = False
        self._interpreter = Interpreter()
        self._warm: WarmProcess | None = None
        # At once, so that the imports run while the experiment is prepared.
        self._warm_up()

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def slots(self) -> int:
        return self._pool.count

    @property
    def spans_machines(self) -> bool:
        return False

    def reason_not_to_fit(self, slots: int) -> str | None:
        """Return why a job with this many slots can never run here; see `Engine.reason_not_to_fit`."""
        return None if slots <= self.slots else too_few_slots(slots, self.slots)

    def where(self, key: str) -> list[str]:
        return [socket.gethostname()] * max(1, len(self._jobs[key].slots)) if key in self._jobs else []

    def serve_store(self, answer: StoreCalls) -> None:
        pass  # workers on this machine open the store themselves

    @property
    def ready(self) -> bool:
        """Whether a job would start at once. A warm process that has exited is restarted by the next job."""
        return self._warm is None or self._warm.ready

    @property
    def wants_more_slots(self) -> bool:
        return False  # all slots of the machine belong to this engine

    @property
    def granter_exited(self) -> bool:
        return False

    @property
    def reason_to_pause(self) -> str:
        return ""

    def free_slots(self) -> int:
        return len(self._pool.available())

    @property
    def reason_to_wait(self) -> str:
        return ""

    def announce_demand(self, slots: int) -> None:
        """Reserve more slots than before if more could be used now."""
        self._pool.reserve_more(slots)

    def preempted_jobs(self) -> list[str]:
        return []

    def restrict_to(self, slots: Sequence[int]) -> None:
        """Start new jobs only on these slots. Jobs on other slots keep running."""
        self._pool.restrict_to(slots)

    def reserve(self, slots: int, holder: SlotHolder, on_wait: Callable[[str], None]) -> Reservation:
        """Lock this many slots against other experiments of the user; see `SlotPool.reserve`."""
        return self._pool.reserve(slots, holder, on_wait)

    @property
    def has_slots(self) -> bool:
        """Whether all reserved slots are locked."""
        return not self._pool.is_waiting

    def placement(self) -> dict[str, list[int]]:
        """Return the slots of each running job."""
        return {key: list(running.slots) for key, running in self._jobs.items()}

    @property
    def private_directory(self) -> str:
        """A directory for sockets that only this user can enter, and that is deleted with the engine."""
        return self._wakeups.directory

    def watch(self, file: int) -> None:
        """Let `events` also return, possibly without events, when this file becomes readable."""
        self._selector.register(file, selectors.EVENT_READ, None)
        self._watched.append(file)

    def unwatch(self) -> None:
        """Stop waiting for the file descriptors that `watch` was called with."""
        for file in self._watched:
            self._selector.unregister(file)
        self._watched.clear()

    def use(self, interpreter: Interpreter) -> None:
        """Run all later jobs with this interpreter: the warm process is replaced by one of that interpreter."""
        if interpreter == self._interpreter:
            # The warm process and its imports are kept if nothing changed.
            return
        if self._jobs:
            raise EngineError(f"the interpreter cannot be changed while {', '.join(self._jobs)} is running")
        self._interpreter = interpreter
        if self._warm is not None:
            self._selector.unregister(self._warm)
            self._warm.replace()
            self._warm = None
        self._warm_up()

    def start(self, job: Job) -> list[int]:
        """Start a job as a fork of the warm process, and return its slots; see `Engine.start`."""
        if job.key in self._jobs:
            raise EngineError(f"{job.key} is already running")
        usable = self._pool.available()
        if job.slots_here > len(usable):
            raise EngineError(
                f"{job.key} needs {counted(job.slots_here, 'slot')}: "
                f"{len(usable)} of {self._pool.count} are free on this machine"
            )
        if not job.directory.is_dir():
            raise EngineError(f"{job.key} cannot be started: the directory {str(job.directory)!r} does not exist")
        ids = usable[: job.slots_here]
        environment = job_environment(
            job, ids, self._pool.slots, self._wakeups.path, self._environment, self._interpreter
        )
        command = runnable(job.command, job.slots)
        output, output_writing = os.pipe()
        errors, errors_writing = os.pipe()
        # Before the start: the job may send its first wake-up at once, and keys of unknown jobs are ignored.
        self._wakeups.expect(job.key)
        # Read before the start: a kill by the kernel during the start already counts for this job.
        memory_kills = count_memory_kills()
        try:
            directory = os.path.abspath(job.directory)
            pid = self._warm_up().start(job.key, command, environment, directory, (output_writing, errors_writing))
        except EngineError as error:
            os.close(output)
            os.close(errors)
            # The key was registered above, and the job will not send anything.
            self._wakeups.forget(job.key)
            if isinstance(error, WarmProcessLost):
                self._handle_lost_warm_process()
            raise
        finally:
            # In any case: as long as this process holds the write
            # ends, the pipes would never report the end of the output.
            os.close(output_writing)
            os.close(errors_writing)
        # Lines without a rank are those of the launcher on this machine, or of its only worker.
        streams = [
            Stream(job.key, name, file, job.first_rank) for name, file in (("stdout", output), ("stderr", errors))
        ]
        for stream in streams:
            self._selector.register(stream.file, selectors.EVENT_READ, stream)
        # Slots are taken last, so that a failed start has nothing to undo.
        self._pool.take(ids)
        self._jobs[job.key] = _Running(pid, ids, streams, memory_kills)
        return list(ids)

    def wake(self, key: str) -> None:
        self._wakeups.send(key)

    def kill(self, key: str) -> None:
        """Kill a job through the warm process; see `Engine.kill`."""
        if key not in self._jobs or self._warm is None:
            return
        running = self._jobs[key]
        running.killed = True
        # Measured before the kill: afterwards the descendants are not waited for by the job, and their CPU time is
        # lost.
        running.cpu_seconds = processes.cpu_seconds(running.pid)
        try:
            self._warm.kill(key)
        except WarmProcessLost:
            self._handle_lost_warm_process()

    def has_listener(self, key: str) -> bool:
        return key in self._jobs and self._wakeups.has_one_of(set(processes.tree(self._jobs[key].pid)))

    def interrupt(self, key: str) -> None:
        if key in self._jobs:
            # The job may have ended in between; its exit message is on its way.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._jobs[key].pid, signal.SIGINT)

    def show_stacks(self, key: str) -> None:
        if key in self._jobs:
            processes.request_stacks(self._jobs[key].pid)

    def cpu_seconds(self, key: str) -> float:
        return processes.cpu_seconds(self._jobs[key].pid) if key in self._jobs else 0.0

    def events(self, timeout: float) -> list[Event]:
        """Return pending events; see `Engine.events`. Also polls for reserved slots that are still missing."""
        deadline = time.monotonic() + timeout
        while True:
            wait = 0.0 if self._has_pending() else max(0.0, deadline - time.monotonic())
            # A lock that is released elsewhere sends no event, so waiting is cut into short steps.
            if self._pool.is_waiting:
                self._pool.lock_missing()
                wait = min(wait, _SECONDS_BETWEEN_LOCK_ATTEMPTS)
            self._collect_events(wait)
            if self._events or self._interrupted or time.monotonic() >= deadline:
                events, self._events, self._interrupted = self._events, [], False
                return events

    def close(self) -> None:
        """Let the warm process kill all jobs, and release all resources, the slot locks last."""
        if self._warm is not None:
            self._selector.unregister(self._warm)
            # Closed before the pipes, so that jobs are killed and not ended by SIGPIPE while they write.
            self._warm.close()
            self._warm = None
        for running in self._jobs.values():
            for stream in running.streams:
                stream.close()
        self._jobs.clear()
        self._selector.close()
        self._wakeups.close()
        # Last: as long as a job may live, its slots must stay locked.
        self._pool.close()

    def _collect_events(self, seconds: float) -> None:
        """Collect the events that arrive within `seconds`.

        Output is read first, so that lines precede Exited events.
        """
        ready = [entry.data for entry, _ in self._selector.select(seconds)]
        self._interrupted = None in ready  # None marks the file registered by `watch`
        for source in ready:
            if isinstance(source, Stream):
                self._events += source.read()
                if source.ended:
                    self._close_stream(source)
        self._events += [WakeupRequested(key) for key in self._wakeups.received()]
        # Messages that arrived while `start` waited for its answer are handled too; they made no descriptor readable.
        while self._warm is not None and (self._warm.waiting() or self._warm in ready):
            try:
                self._handle_message(self._warm.next_message())
            except WarmProcessLost:
                self._handle_lost_warm_process()
            ready = []

    def _has_pending(self) -> bool:
        """Return whether events or messages are pending, so that `events` must not block."""
        return bool(self._events) or (self._warm is not None and self._warm.waiting())

    def _handle_message(self, message: dict[str, Any]) -> None:
        """Handle an exit message of the warm process: release the job's slots and append its Exited event."""
        # The client has noted it already, see `WarmProcess.ready`.
        if "ready" in message:
            return
        key = message["exited"]
        running = self._jobs[key]
        code = os.waitstatus_to_exitcode(message["status"])
        name = signal.Signals(-code).name if code < 0 else None
        # As a shell reports it, which is also what users see.
        code = 128 - code if code < 0 else code
        # SIGKILL is what the kernel sends when memory is short, but a user or the runner can send it as well.
        out_of_memory = code == _KILLED and not running.killed and self._killed_for_memory(running)
        self._release(key)
        # The larger one: a killed job does not wait for its descendants, so their time is missing in its exit status.
        used = max(message["cpu"], running.cpu_seconds)
        self._events.append(Exited(key, code, name, out_of_memory, used))

    def _release(self, key: str) -> None:
        """Read the remaining lines of a job that has ended, and free its slots."""
        running = self._jobs.pop(key)
        for stream in list(running.streams):
            self._events += stream.read_all()
            running.streams.remove(stream)
            self._selector.unregister(stream.file)
            stream.close()
        self._wakeups.forget(key)
        self._pool.release(running.slots)

    def _close_stream(self, stream: Stream) -> None:
        """Close a pipe whose writers have all closed it."""
        self._selector.unregister(stream.file)
        self._jobs[stream.key].streams.remove(stream)
        stream.close()

    def _killed_for_memory(self, running: _Running) -> bool:
        """Return whether the kernel has killed a process for lack of memory since this job started.

        Each kill is attributed to one job only.
        """
        # Kills before the start of this job, or already attributed to another one, do not count.
        known = max(running.memory_kills, self._memory_kills)
        if count_memory_kills() <= known:
            return False
        self._memory_kills = known + 1
        return True

    def _warm_up(self) -> WarmProcess:
        """Return the warm process; start one if there is none."""
        if self._warm is None:
            self._warm = WarmProcess(
                self._wakeups.directory,
                self._interpreter,
                self._environment,
                store_is_server=self._store_is_server,
            )
            self._selector.register(self._warm, selectors.EVENT_READ, self._warm)
        return self._warm

    def _handle_lost_warm_process(self) -> None:
        """Handle the end of the warm process: kill the processes that jobs left behind and report every job as lost.

        The kernel has killed the main processes of the jobs, but not their descendants. Those are found by their
        session and by the DET_DOORBELL variable, which also finds daemons that left the session.
        """
        assert self._warm is not None
        self._selector.unregister(self._warm)
        self._warm.close()
        self._warm = None
        processes.kill(processes.in_sessions({running.pid for running in self._jobs.values()}))
        processes.kill(processes.started_with("DET_DOORBELL", self._wakeups.path))
        # Every job is lost, not failed: the runner starts these trials again without counting a restart.
        for key in list(self._jobs):
            self._release(key)
            self._events.append(Exited(key, _KILLED, "SIGKILL", False, 0.0, lost=True))
