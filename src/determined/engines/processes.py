"""The processes below a process: who they are, what they used, and which of them react to a signal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_LINUX = sys.platform == "linux"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def children(pid: int) -> list[int]:
    """The processes that the process has started, or inherited, and that are not yet collected."""
    if not _LINUX:
        return _children_elsewhere(pid)
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            place = f"/proc/{pid}/task/{thread}/children"
            with contextlib.suppress(OSError), open(place, "rb", buffering=0) as file:
                found += map(int, file.read().split())
    return found


def tree(pid: int) -> Iterator[int]:
    """The process and everything below it, parents first."""
    yield pid
    for child in children(pid):
        yield from tree(child)


def cpu_seconds(pid: int) -> float:
    """CPU time of the whole tree, with that of its members that have ended and were collected."""
    return sum(map(_used, tree(pid)))


def in_sessions(leaders: set[int]) -> list[int]:
    """The processes of these sessions, whoever their parents are."""
    return [pid for pid in _everybody() if _session(pid) in leaders]


def started_with(variable: str, value: str) -> list[int]:
    """The processes of this user that were started with the variable in their environment."""
    wanted, found = os.fsencode(f"{variable}={value}"), []
    for pid in _everybody():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(pid)
    return found


def catches(pid: int, signal: int) -> bool:
    """Whether the process has a handler for the signal, so that it would not just die of it."""
    if not _LINUX:
        return False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal - 1) & 1)
    return False


def _used(pid: int) -> float:
    if not _LINUX:
        return _used_elsewhere(pid)
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS if fields else 0.0


def _everybody() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if _LINUX else []


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields from the state on; the name before it may hold anything."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _children_elsewhere(pid: int) -> list[int]:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def _used_elsewhere(pid: int) -> float:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)
