"""Process controls of the Linux kernel (`prctl`). On other systems the functions have no effect."""

from __future__ import annotations

import ctypes
import sys

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def collect_orphans() -> None:
    """Make this process the subreaper: orphaned descendants become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: int) -> None:
    """Let the kernel send this signal to the current process when its parent ends; 0 cancels that."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)
