"""Whether the kernel has ended processes for want of memory."""

from __future__ import annotations

import contextlib
import re

_ROOT = "/sys/fs/cgroup"
_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


def count_memory_kills() -> int:
    """How often it has, as far as this process can know: in its own control group, else on the machine."""
    for path in (f"{_own_group()}/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError):
            if found := _COUNT.search(_content(path)):
                return int(found[1])
    return 0


def _own_group() -> str:
    with contextlib.suppress(OSError):
        for line in _content("/proc/self/cgroup").splitlines():
            if line.startswith(b"0::/"):
                return f"{_ROOT}/{line[4:].decode(errors='surrogateescape')}"
    return _ROOT


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
