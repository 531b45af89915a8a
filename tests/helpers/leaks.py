"""Finds what a test leaves behind: processes, threads, a process group, variables, a working directory, files.

The fixture `leaves_nothing_behind` in `tests/conftest.py` compares two snapshots for every test:

    before = take(files_in)
    ...                                        # the test, and the teardown of its fixtures
    left = found(before, tmp_path)             # one line for each thing that is still there

What outlives a test on purpose, because several tests share it, is created in a `shared` block:

    with shared():
        server = subprocess.Popen(...)

The fixtures of a module, a class or the session are set up in such a block by `tests/conftest.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from weakref import WeakSet

# Processes that were just requested to end may take a moment, on a busy machine several seconds.
GRACE_SECONDS = 10.0

# pytest changes it between the setup, the call and the teardown of a test.
_OF_PYTEST = "PYTEST_CURRENT_TEST"


@dataclass(frozen=True)
class Snapshot:
    """The processes, threads, variables and files that exist at one moment."""

    environment: dict[str, str]
    directory: str | None
    threads: set[threading.Thread]
    children: set[int]
    processes: set[int]
    files: dict[str, set[str]]
    has_process_group: bool


@dataclass(frozen=True)
class _Shared:
    """What tests share. Children of a shared parent, such as the warm interpreter, belong to the running test."""

    processes: set[int] = field(default_factory=set)
    threads: WeakSet[threading.Thread] = field(default_factory=WeakSet)
    files: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    parents: list[int] = field(default_factory=list)


_shared = _Shared()
_watched: set[str] = set()


def watch(*directories: Path) -> None:
    """Let snapshots list these directories, in which no test may create a file."""
    _watched.update(map(str, directories))


@contextmanager
def shared(*, variables: bool = False) -> Iterator[None]:
    """Everything that is started or created in this block may outlive the test.

    With `variables`, so may environment variables that are added: some libraries set their own when they are imported,
    once for the life of the process.
    """
    before = take()
    try:
        yield
    finally:
        after = take()
        _shared.processes.update(after.processes - before.processes)
        _shared.threads.update(after.threads - before.threads)
        _shared.files.update(_new_files(before, after))
        if variables:
            _shared.variables.update(after.environment.keys() - before.environment.keys())


def is_shared(path: Path) -> bool:
    """Return whether this file or directory was created for several tests."""
    return str(path) in _shared.files


def share_processes(pids: Iterable[int]) -> None:
    """Let processes outlive the test that a shared object has started on its behalf."""
    _shared.processes.update(pids)


def share_threads(threads: Iterable[threading.Thread]) -> None:
    """Let threads outlive the test that a shared object has started on its behalf."""
    _shared.threads.update(threads)


def starts_processes_for_tests(pid: int) -> None:
    """Count the children of this shared process among those of the test that is running."""
    _shared.parents.append(pid)


def take() -> Snapshot:
    """Return what exists now. This is called twice for every test, so it reads no more than a few directories."""
    return Snapshot(
        environment=dict(os.environ),
        directory=_working_directory(),
        threads=set(threading.enumerate()),
        children=_children(),
        processes={int(name) for name in os.listdir("/proc") if name.isdecimal()},
        files={directory: set(os.listdir(directory)) for directory in _watched},
        has_process_group=_has_process_group(),
    )


def found(before: Snapshot, tmp_path: Path, allowed_files: Iterable[str] = ()) -> list[str]:
    """Describe what a test left behind; remove or restore all of it except files, so that the next test starts clean.

    Files whose names match one of the patterns in `allowed_files` are not reported.
    """
    after = take()
    return [
        *_left_processes(before, after, tmp_path),
        *_left_threads(before, after),
        *_left_process_group(before, after),
        *_left_environment(before, after),
        *_left_directory(before, after),
        *(
            f"file: {path}"
            for path in sorted(_new_files(before, after) - _shared.files)
            if not _is_allowed(path, allowed_files)
        ),
    ]


def _left_processes(before: Snapshot, after: Snapshot, tmp_path: Path) -> list[str]:
    known = before.processes | before.children | _shared.processes
    new = after.processes - known
    # Processes whose parent has ended are children of init: their environment tells which test started them.
    mark = os.fsencode(f"{tmp_path}/")

    def left() -> set[int]:
        return (_children() - known) | {pid for pid in new if mark in _environment_of(pid)}

    _wait_until(lambda: not left())
    lines = []
    for pid in sorted(left()):
        lines.append(f"process {pid}: {_command_line(pid) or 'ended, but nobody waited for it'}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # not a child of this process
            os.waitpid(pid, 0)
    return lines


def _left_threads(before: Snapshot, after: Snapshot) -> list[str]:
    left = [
        thread
        for thread in after.threads - before.threads
        if thread not in _shared.threads and (not thread.daemon or _is_ours(thread))
    ]
    _wait_until(lambda: not any(thread.is_alive() for thread in left))
    return [f"thread: {thread.name}" for thread in left if thread.is_alive()]


def _left_process_group(before: Snapshot, after: Snapshot) -> list[str]:
    if not after.has_process_group or before.has_process_group:
        return []
    import torch.distributed

    torch.distributed.destroy_process_group()
    return ["process group of torch.distributed"]


def _left_environment(before: Snapshot, after: Snapshot) -> list[str]:
    names = sorted(before.environment.keys() | after.environment.keys())
    changed = [name for name in names if before.environment.get(name) != after.environment.get(name)]
    lines = []
    for name in changed:
        if name == _OF_PYTEST or name in _shared.variables:
            continue
        lines.append(f"environment variable: {name}={after.environment.get(name)!r}")
        os.environ.pop(name, None)
        if name in before.environment:
            os.environ[name] = before.environment[name]
    return lines


def _left_directory(before: Snapshot, after: Snapshot) -> list[str]:
    if before.directory is None or before.directory == after.directory:
        return []
    os.chdir(before.directory)
    return [f"working directory: {after.directory}"]


def _new_files(before: Snapshot, after: Snapshot) -> set[str]:
    return {
        f"{directory}/{name}"
        for directory, names in after.files.items()
        for name in names - before.files.get(directory, names)
    }


def _is_allowed(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern allows this file, or it is the cache of a tool that runs in this repository."""
    name = os.path.basename(path)
    return name in (".mypy_cache", ".ruff_cache", ".hypothesis") or any(fnmatch(name, pattern) for pattern in patterns)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # deleted
        return None


def _children() -> set[int]:
    """Return the processes that this process, or a shared one on its behalf, has started and not waited for."""
    found: set[int] = set()
    for parent in ("self", *_shared.parents):
        with contextlib.suppress(FileNotFoundError):  # the process has ended
            for thread in os.listdir(f"/proc/{parent}/task"):
                found.update(map(int, _read(f"/proc/{parent}/task/{thread}/children").split()))
    return found


def _environment_of(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ")


def _command_line(pid: int) -> str:
    return os.fsdecode(_read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")).strip()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # has ended, or belongs to another user
        return b""


def _is_ours(thread: threading.Thread) -> bool:
    """Return whether the thread runs code of this repository; libraries keep daemon threads for the life of the
    process.
    """
    target = getattr(thread, "_target", None)
    modules = (type(thread).__module__, getattr(target, "__module__", None) or "")
    return any(module.split(".")[0] in ("determined", "tests") for module in modules)


def _has_process_group() -> bool:
    module = sys.modules.get("torch.distributed")
    return module is not None and bool(module.is_available() and module.is_initialized())


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
