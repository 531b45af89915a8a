"""The warm process: it has imported what training needs and forks itself for every job.

It has one thread and no CUDA context, so its forks can behave like new processes (`job.py`). Every job leads its
own session and is the subreaper of its descendants while it lives. So any child of the warm process that is not a job
was left behind by a job that has ended, and is killed. When the engine's process ends for any reason, all jobs are
killed.

Messages from the engine: {"start": key} with an encoded request (`job_request.py`) and the write ends of two pipes, and
{"kill": key}. Messages to the engine: {"ready": true}, {"started": key, "pid": n}, {"failed": key, "reason": text}, and
{"exited": key, "status": n, "cpu": seconds}.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from determined.engines.processes import children, tree
from determined.engines.warm import messages
from determined.engines.warm.fork_compatibility import read_at_start
from determined.engines.warm.job import WarmFacts, run_job
from determined.kernel import become_subreaper, signal_when_parent_ends, use_huge_pages

# Modules that a training imports before or soon after its first batch, determined by observing what forks still had to
# import.
_IMPORTED = (
    "torch",
    "torch._dynamo",  # imported by optimizers, to exclude themselves from compilation
    "torch.utils.serialization.config",
    "determined.pytorch",
    "determined.exec.harness",
    "determined.launch.torch_distributed",
    "determined.core.ranks.object_group",
    "determined.checkpoint_storage.retention",
    "determined.checkpoint_storage.types.directory",
    "determined.store.substores.experiments",
    "determined.store.substores.publishing",
    "determined.store.substores.registry",
    "determined.store.relay.client",  # of trials on other machines than their store
    "determined.store.store",
    "determined.store.sql.attempts",
    "determined.store.sql.row_writing",
    "determined.store.substores.upkeep",
    "determined.store.databases.sqlite",
    "pathspec",
)
_FOR_A_SERVER = ("psycopg",)  # only needed for a PostgreSQL store
_SECONDS_TO_DIE = 2.0  # a killed process that still exists after this waits for a device in the kernel


def main(connection: int, parent: int, directory: str, *, store_is_server: bool) -> NoReturn:
    """Serve the engine with this process id and socket until it ends; then delete the engine's directory.

    With `store_is_server`, what connections to PostgreSQL need is imported as well.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the runner reacts to Ctrl-C
    become_subreaper()
    with _exiting_with_parent(parent, directory):
        facts = _warm_up(_FOR_A_SERVER if store_is_server else ())
    # The directory of the command may be deleted or unmounted while this process lives.
    os.chdir("/")
    WarmServer(socket.socket(fileno=connection), parent, facts).serve()
    _exit(directory)


@contextlib.contextmanager
def _exiting_with_parent(parent: int, directory: str) -> Iterator[None]:
    """Exit when the engine's process ends, while imports keep this process from watching its socket."""

    def look(*_: object) -> None:
        if os.getppid() != parent:  # otherwise only the thread that started this process has ended
            _exit(directory)

    signal.signal(signal.SIGTERM, look)
    # Only during imports: afterwards the main loop watches the parent itself and can kill the jobs first.
    signal_when_parent_ends(signal.SIGTERM)
    # The parent may have ended before the kernel was asked to send the signal.
    look()
    yield
    signal_when_parent_ends(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a SIGTERM sent to all processes is handled by the runner alone


def _exit(directory: str) -> NoReturn:
    """Delete the engine's directory and exit without exit functions."""
    shutil.rmtree(directory, ignore_errors=True)
    # Exit functions of libraries would take time, and belong to the imports, not to this process.
    os._exit(0)


def _warm_up(optional: tuple[str, ...] = ()) -> WarmFacts:
    """Import the modules of a training, and installed `optional` ones; make this process ready to fork."""
    # The collections that these imports trigger are wanted: without them the process keeps their garbage, in more pages
    # that every fork must map.
    # Taken before the variables below are set, since jobs are compared with what the user has set.
    environment = dict(os.environ)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    # Jobs get the PYTHONPATH of their own environment instead.
    path = [place for place in sys.path if place not in {*added, *map(os.path.abspath, filter(None, added))}]
    # numpy's OpenBLAS would start threads when it is loaded; a process with threads cannot be forked safely.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # A module that counts GPUs on import must not initialize CUDA: forks could not use it any more.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in (*_IMPORTED, *filter(importlib.util.find_spec, optional)):
        importlib.import_module(name)
    # Otherwise every trial builds these tables again.
    importlib.import_module("determined.tensorboard.events").prepare()
    # At every exit it would search for an optional package.
    atexit.unregister(sys.modules["torch._dynamo.utils"].dump_compile_times)
    _deregister_finalizers()
    gc.collect()
    gc.freeze()  # a collection would write to every object, and so unshare all pages from the forks
    # Otherwise every trial counts the frozen objects again.
    importlib.import_module("determined.pytorch.run.startup_collections").look_for_frozen_objects()
    use_huge_pages()
    return WarmFacts(os.getpid(), read_at_start(environment), path)


def _deregister_finalizers() -> None:
    """Deregister the finalizers of libraries, so that no fork runs them at its exit.

    Even to find out that none of them has to run, a fork would write to every page that holds one. The first finalizer
    that a job creates registers the exit function again for that job.
    """
    # Private: weakref has no public way to do this.
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.unregister(weakref.finalize._exitfunc)  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


class WarmServer:
    """The event loop of the warm process and the jobs it has started."""

    def __init__(self, engine: socket.socket, parent: int, facts: WarmFacts) -> None:
        self._engine = engine
        self._facts = facts
        self._jobs: dict[int, str] = {}
        self._ended: list[dict[str, Any]] = []  # exit messages, held back until no process of the job is left
        self._kill_deadline = 0.0
        self._wake, self._waking = socket.socketpair()
        # Neither end may block: a signal handler writes to one of them.
        self._wake.setblocking(False)
        self._waking.setblocking(False)
        # A handler must exist for the wakeup descriptor to be written. It wakes `poll`, which would otherwise not
        # return when a child exits.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        self._parent = _watch(parent)

    def serve(self) -> None:
        """Handle messages and exiting children until the engine's process ends; then kill all jobs."""
        self._send({"ready": True})
        poll = select.poll()
        for file in (self._engine, self._wake):
            poll.register(file, select.POLLIN)
        # The socket alone is not enough: other processes may have inherited the engine's end.
        if self._parent is not None:
            poll.register(self._parent, select.POLLIN)
        while True:
            ready = {file for file, _ in poll.poll(self._milliseconds())}
            if self._wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    # Only emptied: what it says is that children have to be looked at.
                    self._wake.recv(4096)
            if self._parent in ready or (self._engine.fileno() in ready and not self._handle_message()):
                break
            self._reap_children()
        self._kill_everything()

    def _handle_message(self) -> bool:
        """Carry out the next message of the engine; return False if the engine has closed the connection."""
        # One message for each round, so that exits are reported between two starts.
        received = messages.receive(self._engine)
        if received is None:
            return False
        message = received.message
        if "start" in message:
            self._start(message["start"], received.body, received.files)
        else:
            for pid, key in self._jobs.items():
                if key == message["kill"]:
                    _kill_tree(pid)
        return True

    def _start(self, key: str, request: bytes, files: list[int]) -> None:
        """Fork a job, and report its process id or the reason of the failure."""
        try:
            # The fork shares the memory of all imports; this is why a job starts in milliseconds.
            pid = os.fork()
        except OSError as error:
            answer: dict[str, Any] = {
                "failed": key,
                "reason": f"the warm process could not be forked: {error.strerror}",
            }
        else:
            if pid == 0:
                # Otherwise a job would keep the connection open after this process has died, and the engine would wait.
                self._close_inherited_files()
                run_job(request, (files[0], files[1]), self._facts)
            self._jobs[pid] = key
            answer = {"started": key, "pid": pid}
        for file in files:
            # The fork has its own copies. Held open here, they would keep the pipes from ending.
            os.close(file)
        self._send(answer)

    def _close_inherited_files(self) -> None:
        """Close, in a fork, all files that belong to the warm process."""
        signal.set_wakeup_fd(-1)
        for end in (self._engine, self._wake, self._waking):
            end.close()
        if self._parent is not None:
            os.close(self._parent)

    def _reap_children(self) -> None:
        """Wait for children that have exited, kill what their jobs left behind, then report the exits."""
        for pid, status, used in _ended_children():
            if pid in self._jobs:
                cpu = used.ru_utime + used.ru_stime
                # Reported only when nothing of the job is left, so that its slots are really free.
                self._ended.append({"exited": self._jobs.pop(pid), "status": status, "cpu": cpu})
                self._kill_deadline = time.monotonic() + _SECONDS_TO_DIE
                if sys.platform != "linux":  # there is no subreaper: orphans are found by their process group only
                    with contextlib.suppress(OSError):
                        os.killpg(pid, signal.SIGKILL)
        if not self._ended:
            return
        # Orphans are re-parented to this process, so every child that is no job was left behind.
        left = [pid for pid in children(os.getpid()) if pid not in self._jobs]
        for pid in left:
            _kill_tree(pid)
        # A process that survives SIGKILL waits in the kernel; the job is reported all the same.
        if not left or time.monotonic() >= self._kill_deadline:
            for message in self._ended:
                self._send(message)
            self._ended.clear()

    def _milliseconds(self) -> float | None:
        """Return the timeout for `poll`: until the deadline for killed processes, or None if there are none."""
        return max(0.0, self._kill_deadline - time.monotonic()) * 1000 if self._ended else None

    def _send(self, message: dict[str, Any]) -> None:
        """Send a message to the engine."""
        with contextlib.suppress(ConnectionError):  # the loop notices the closed connection
            messages.send(self._engine, message)

    def _kill_everything(self) -> None:
        """Kill all jobs and their descendants, for a limited time."""
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while (left := children(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                _kill_tree(pid)
            # Waited for, because zombies are still listed as children.
            list(_ended_children())
            select.select([], [], [], 0.01)


def _ended_children() -> Iterator[tuple[int, int, resource.struct_rusage]]:
    """Yield process id, status and resource usage of each child that has exited."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status, used


def _watch(parent: int) -> int | None:
    """Return a file that becomes readable when the process ends, or None if the system has no such files."""
    try:
        return os.pidfd_open(parent)
    # pidfd_open needs Linux 5.3; without it the closed socket tells that the engine has ended.
    except (AttributeError, OSError):
        return None


def _kill_tree(pid: int) -> None:
    """Kill a process and its descendants, parents first.

    Orphans become children of this process and are found again.
    """
    # A list, because the tree changes while its members are killed.
    for member in list(tree(pid)):
        with contextlib.suppress(OSError):  # it has exited already, or belongs to another user
            os.kill(member, signal.SIGKILL)
