"""Find what a test left behind: processes, threads, environment variables, a working directory, files of the user.

`Snapshot.take()` before the test and `snapshot.left_behind(tmp_path)` after it, both in well under a millisecond.

A process counts as the test's if it is a child of this process, a child of the warm interpreter (`warm.py`), or if its
environment names the test's temporary directory, as that of every process does which was started in the test: a daemon
or an orphan in a process group of its own is found too, whoever its parent is now.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

# Set by pytest itself, by importing torch or scikit-learn, and by the launchers of torch that run in this process.
_SET_BY_OTHERS = ("PYTEST_", "TORCHINDUCTOR_", "KMP_", "TORCH_NCCL_")

_SECONDS_TO_END = 5.0  # on a busy machine the last moments of a process or thread take a while

_kept: set[int] = set()  # processes for the rest of the session
_strangers: set[int] = set()  # processes of others: their environments need not be read again


def keep(pid: int) -> None:
    """Let a process outlive the test that happened to need it first."""
    _kept.add(pid)


@dataclass(frozen=True)
class Snapshot:
    """What there was before a test."""

    environment: dict[str, str]
    directory: str
    threads: frozenset[int]
    children: frozenset[int]
    user_files: frozenset[str]

    @classmethod
    def take(cls) -> Snapshot:
        """Return what there is now."""
        return cls(
            _environment(),
            os.getcwd(),
            frozenset(id(thread) for thread in threading.enumerate()),
            frozenset(_children_of_this_process()),
            _user_files(),
        )

    def left_behind(self, tmp_path: Path) -> list[str]:
        """Return a description of each thing that was not there before; waits for what is about to end."""
        return [
            *self._changed_variables(),
            *self._changed_directory(),
            *_that_stay(self._threads),
            *_that_stay(lambda: self._processes(str(tmp_path))),
            *(f"{name} in a data directory of the user" for name in sorted(_user_files() - self.user_files)),
        ]

    def _changed_variables(self) -> list[str]:
        now = _environment()
        if now == self.environment:
            return []
        names = sorted(now.keys() | self.environment.keys())
        return [
            f"environment variable {name}: {self.environment.get(name)!r} before, {now.get(name)!r} now"
            for name in names
            if now.get(name) != self.environment.get(name)
        ]

    def _changed_directory(self) -> list[str]:
        now = os.getcwd()
        return [] if now == self.directory else [f"working directory {now} instead of {self.directory}"]

    def _threads(self) -> list[str]:
        return [f"thread {thread.name}" for thread in threading.enumerate() if id(thread) not in self.threads]

    def _processes(self, tmp_path: str) -> list[str]:
        found = set(_children_of_this_process()) - self.children
        for server in _kept:
            found.update(_children(server))
        found.update(_started_in(tmp_path))
        return [_describe(pid) for pid in sorted(found - _kept)]


def _that_stay(look: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + _SECONDS_TO_END
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.01)  # nothing announces the end of processes that are not our children
    return found


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_SET_BY_OTHERS)}


def _children_of_this_process() -> Iterable[int]:
    for thread in threading.enumerate():
        if thread.native_id is not None:
            yield from _children(os.getpid(), thread.native_id)


def _children(pid: int, thread: int | None = None) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{thread or pid}/children").read_text().split()]
    except OSError:  # the process or thread has ended, or this is not Linux
        return []


def _started_in(tmp_path: str) -> Iterable[int]:
    """Return the processes, zombies aside, whose environment names a directory; each process is asked once."""
    wanted = os.fsencode(tmp_path)
    for name in os.listdir("/proc") if os.path.isdir("/proc/self/task") else ():
        if not name.isdigit() or (pid := int(name)) in _strangers or pid == os.getpid():
            continue
        environment = b""
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
        if wanted in environment:
            yield pid
        else:
            _strangers.add(pid)


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        group = os.getpgid(pid)
    except OSError:
        return f"process {pid}, which has ended by now"
    return f"process {pid} in group {group}: {words[:200] or 'ended, but nobody waited for it'}"


def _user_files() -> frozenset[str]:
    """Return what is directly in the data and state directories that programs use without XDG variables."""
    found: set[str] = set()
    for kind in ("share", "state"):
        directory = os.path.expanduser(f"~/.local/{kind}/determined")
        with contextlib.suppress(OSError):
            found.update(os.path.join(directory, name) for name in os.listdir(directory))
    # SQLite's temporary files come and go with programs that the user runs meanwhile.
    return frozenset(name for name in found if not name.endswith(("-wal", "-shm", "-journal")))
