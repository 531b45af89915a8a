"""Count the processes that the kernel has killed for lack of memory."""

from __future__ import annotations

import contextlib
import re

_ROOT = "/sys/fs/cgroup"
_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


def count_memory_kills() -> int:
    """Return the number of out-of-memory kills in this process's control group, or else on the machine.

    Returns 0 if neither can be read.
    """
    for path in (f"{_own_group()}/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError):
            if found := _COUNT.search(_content(path)):
                return int(found[1])
    return 0


def _own_group() -> str:
    """Return the directory of this process's control group (version 2), or that of the root group."""
    with contextlib.suppress(OSError):
        for line in _content("/proc/self/cgroup").splitlines():
            if line.startswith(b"0::/"):
                return f"{_ROOT}/{line[4:].decode(errors='surrogateescape')}"
    return _ROOT


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
