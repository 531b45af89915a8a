"""What the Linux kernel does for a process that asks: elsewhere nothing happens."""

from __future__ import annotations

import ctypes
import sys

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def collect_orphans() -> None:
    """Processes below this one that lose their parent become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: int) -> None:
    """From now on, or never again for 0: where the kernel does such a thing."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)
