"""Inspect processes: descendants, CPU time, sessions, signal handlers, and kills for lack of memory."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator

_LINUX = sys.platform == "linux"
_CONTROL_GROUPS = "/sys/fs/cgroup"
_MEMORY_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
# /proc counts CPU time in clock ticks.
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def children(pid: int) -> list[int]:
    """Return the ids of the processes that the process has started or adopted and not yet waited for."""
    if not _LINUX:
        return _children_elsewhere(pid)
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process has just exited
        # Each thread has a list of the processes that it started.
        for thread in os.listdir(f"/proc/{pid}/task"):
            place = f"/proc/{pid}/task/{thread}/children"
            # Unbuffered: one system call for each of possibly thousands of files.
            with contextlib.suppress(OSError), open(place, "rb", buffering=0) as file:
                found += map(int, file.read().split())
    return found


def tree(pid: int) -> Iterator[int]:
    """Yield the process and all its descendants, parents first."""
    # Not atomic: a process may fork meanwhile, so callers that kill repeat it until nothing is left.
    yield pid
    for child in children(pid):
        yield from tree(child)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process tree, including those of members that have exited and were waited for."""
    return sum(map(_used, tree(pid)))


def in_sessions(leaders: set[int]) -> list[int]:
    """Return the processes that belong to these sessions, regardless of their parents."""
    return [pid for pid in _all_pids() if _session(pid) in leaders]


def started_with(variable: str, value: str) -> list[int]:
    """Return the processes of this user that were started with this variable in their environment."""
    wanted, found = os.fsencode(f"{variable}={value}"), []
    for pid in _all_pids():
        # Other users' files cannot be read, and processes may have exited; both are skipped.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(pid)
    return found


def catches(pid: int, number: int) -> bool:
    """Return whether the process handles the signal, so that the signal would not terminate it."""
    if not _LINUX:
        return False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                # Bit n - 1 stands for signal n.
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def request_stacks(pid: int) -> None:
    """Send SIGUSR1 to the topmost processes of a tree that handle it: a launcher forwards it to its workers.

    A process that does not handle the signal would be terminated by it.
    """
    if catches(pid, signal.SIGUSR1):
        # It may exit between the check and the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
        return
    for child in children(pid):
        request_stacks(child)


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to these processes; those that cannot be killed are skipped."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has exited already, or belongs to another user
            os.kill(pid, signal.SIGKILL)


def _used(pid: int) -> float:
    """Return the CPU seconds of one process, including its children that were waited for."""
    if not _LINUX:
        return _used_elsewhere(pid)
    fields = _stat(pid)
    # User and system time of the process and of its children that were waited for.
    return sum(map(int, fields[11:15])) / _TICKS if fields else 0.0


def _all_pids() -> list[int]:
    """Return the ids of all processes of the machine; none outside Linux."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if _LINUX else []


def _session(pid: int) -> int | None:
    """Return the session id of a process, or None if it has exited."""
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the process state on.

    The field before them is the name of the program, which may contain spaces and parentheses.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _children_elsewhere(pid: int) -> list[int]:
    """Return the children of a process on systems without /proc."""
    # Imported here, because Linux does not need it.
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def _used_elsewhere(pid: int) -> float:
    """Return the CPU seconds of a process on systems without /proc."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)


def count_memory_kills() -> int:
    """Return the number of out-of-memory kills in this process's control group, or else on the machine.

    Returns 0 if neither can be read.
    """
    # A container sees only its own group. Without control groups the counter of the machine is used.
    for path in (f"{_own_group()}/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError):
            if found := _MEMORY_KILLS.search(_content(path)):
                return int(found[1])
    return 0


def _own_group() -> str:
    """Return the directory of this process's control group (version 2), or that of the root group."""
    with contextlib.suppress(OSError):
        for line in _content("/proc/self/cgroup").splitlines():
            if line.startswith(b"0::/"):
                return f"{_CONTROL_GROUPS}/{line[4:].decode(errors='surrogateescape')}"
    return _CONTROL_GROUPS


def _content(path: str) -> bytes:
    """Return the content of a file of /proc or a control group, read at once."""
    with open(path, "rb", buffering=0) as file:
        return file.read()
