"""The warm process: it has imported what a training needs, and makes a copy of itself for every job.

It has one thread and no CUDA context, so its copies are as good as fresh processes (`warm_job.py`). Every job is its
parent's session, and collects its own orphans while it lives; so whatever comes to this process beside the jobs was
left behind by one that has ended, and is ended too. When the engine's process is gone, however it went, all jobs are.

From the engine: {"start": key} with an encoded order (`orders.py`) and the ends of two pipes, {"kill": key}. To it:
{"ready": true}, {"started": key, "pid": n}, {"failed": key, "reason": text}, and
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

from determined.engines import messages
from determined.engines.freshness import read_at_start
from determined.engines.huge_pages import use_huge_pages
from determined.engines.kernel import collect_orphans, signal_when_parent_ends
from determined.engines.processes import children, tree
from determined.engines.warm_job import Warmth, live

# What a training imports before its first batch, or soon after: found by looking at what a copy had to import.
_IMPORTED = (
    "torch",
    "torch._dynamo",  # optimizers ask it not to look at them
    "torch.utils.serialization.config",
    "determined.pytorch",
    "determined.exec.harness",
    "determined.launch.torch_distributed",
    "determined.store.sql_store",
    "determined.store.sqlite",
    "pathspec",
)
_FOR_A_SERVER = ("psycopg",)  # where the store is one
_SECONDS_TO_DIE = 2.0  # a process that was killed, and does not go, waits for a device


def main(connection: int, parent: int, directory: str) -> NoReturn:
    """Serve the engine whose process and socket these are until it is gone; then remove its directory as well."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person's Ctrl-C is the runner's to interpret
    collect_orphans()
    with _leaving_with(parent, directory):
        warmth = _warm_up()
    os.chdir("/")
    Warm(socket.socket(fileno=connection), parent, warmth).serve()
    _leave(directory)


@contextlib.contextmanager
def _leaving_with(parent: int, directory: str) -> Iterator[None]:
    """While nobody listens to the engine, the kernel tells of its end."""

    def look(*_: object) -> None:
        if os.getppid() != parent:  # else it is only the thread that started us
            _leave(directory)

    signal.signal(signal.SIGTERM, look)
    signal_when_parent_ends(signal.SIGTERM)
    look()
    yield
    signal_when_parent_ends(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to everybody, it is the runner's to interpret as well


def _leave(directory: str) -> NoReturn:
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


def _warm_up() -> Warmth:
    environment = dict(os.environ)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    path = [place for place in sys.path if place not in {*added, *map(os.path.abspath, filter(None, added))}]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's library would start threads when it is loaded
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # who asks for GPUs on import shall not wake CUDA
    server = _FOR_A_SERVER if "://" in environment.get("DET_STORE", "") else ()
    for name in (*_IMPORTED, *filter(importlib.util.find_spec, server)):
        importlib.import_module(name)
    importlib.import_module("determined.tensorboard.events").prepare()  # else every trial makes its own tables
    atexit.unregister(sys.modules["torch._dynamo.utils"].dump_compile_times)  # looks for a package, every time
    _forget_finalizers()
    gc.collect()
    gc.freeze()  # a collection would write to every object, and so copy all pages
    use_huge_pages()
    return Warmth(os.getpid(), read_at_start(environment), path)


def _forget_finalizers() -> None:
    """Let no copy run at its exit what libraries registered here: their objects go with its memory.

    Even to find out that none of these many finalizers is to be run, a copy would write to every page that holds one.
    The first finalizer that a job makes itself registers the function for its own exit again.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.unregister(weakref.finalize._exitfunc)  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


class Warm:
    """The jobs, and the loop that serves them."""

    def __init__(self, engine: socket.socket, parent: int, warmth: Warmth) -> None:
        self._engine = engine
        self._warmth = warmth
        self._jobs: dict[int, str] = {}
        self._ended: list[dict[str, Any]] = []  # reported as soon as nothing of theirs is left
        self._patience = 0.0
        self._wake, self._waking = socket.socketpair()
        self._wake.setblocking(False)
        self._waking.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        self._parent = _watch(parent)

    def serve(self) -> None:
        self._tell({"ready": True})
        poll = select.poll()
        for file in (self._engine, self._wake):
            poll.register(file, select.POLLIN)
        if self._parent is not None:  # others may have inherited its end of the socket
            poll.register(self._parent, select.POLLIN)
        while True:
            ready = {file for file, _ in poll.poll(self._milliseconds())}
            if self._wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(4096)
            if self._parent in ready or (self._engine.fileno() in ready and not self._obey()):
                break
            self._collect()
        self._end_everything()

    def _obey(self) -> bool:
        """Do what the engine says; False when it is gone."""
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

    def _start(self, key: str, order: bytes, files: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            answer: dict[str, Any] = {
                "failed": key,
                "reason": f"the warm process could not be copied: {error.strerror}",
            }
        else:
            if pid == 0:
                self._forget()
                live(order, (files[0], files[1]), self._warmth)
            self._jobs[pid] = key
            answer = {"started": key, "pid": pid}
        for file in files:
            os.close(file)
        self._tell(answer)

    def _forget(self) -> None:
        """A copy has nothing to do with the engine, or with other jobs."""
        signal.set_wakeup_fd(-1)
        for end in (self._engine, self._wake, self._waking):
            end.close()
        if self._parent is not None:
            os.close(self._parent)

    def _collect(self) -> None:
        """Collect who has ended; what a job has left behind is killed before its end is told."""
        for pid, status, used in _ended_children():
            if pid in self._jobs:
                cpu = used.ru_utime + used.ru_stime
                self._ended.append({"exited": self._jobs.pop(pid), "status": status, "cpu": cpu})
                self._patience = time.monotonic() + _SECONDS_TO_DIE
                if sys.platform != "linux":  # where orphans do not come to us
                    with contextlib.suppress(OSError):
                        os.killpg(pid, signal.SIGKILL)
        if not self._ended:
            return
        left = [pid for pid in children(os.getpid()) if pid not in self._jobs]
        for pid in left:
            _kill_tree(pid)
        if not left or time.monotonic() >= self._patience:
            for message in self._ended:
                self._tell(message)
            self._ended.clear()

    def _milliseconds(self) -> float | None:
        """How long to sleep; with leftovers about, until the patience with them ends."""
        return max(0.0, self._patience - time.monotonic()) * 1000 if self._ended else None

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # noticed by the loop
            messages.send(self._engine, message)

    def _end_everything(self) -> None:
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while (left := children(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                _kill_tree(pid)
            list(_ended_children())
            select.select([], [], [], 0.01)


def _ended_children() -> Iterator[tuple[int, int, resource.struct_rusage]]:
    """Collect the children that have ended: number, status, and what they used."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status, used


def _watch(parent: int) -> int | None:
    """A file that becomes readable when the process ends, where the system has such files."""
    try:
        return os.pidfd_open(parent)
    except (AttributeError, OSError):
        return None


def _kill_tree(pid: int) -> None:
    """Top down: who loses its parent comes to us, and is found again."""
    for member in list(tree(pid)):
        with contextlib.suppress(OSError):  # gone already, or not ours to kill
            os.kill(member, signal.SIGKILL)
