"""Calls of the Linux kernel without a function in Python (`prctl`, `madvise`). On other systems they have no effect."""

from __future__ import annotations

import ctypes
import sys

# None opens the C library that this process has loaded already.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
# From the headers of Linux, because Python has no names for them.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MADV_COLLAPSE = 25
# Smaller regions cannot be collapsed.
_HUGE_PAGE = 2 << 20  # bytes


def become_subreaper() -> None:
    """Make this process the subreaper: orphaned descendants become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: int) -> None:
    """Let the kernel send this signal to the current process when its parent ends; 0 cancels that."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    """Set a process option of Linux; do nothing on other systems."""
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


def use_huge_pages() -> None:
    """Move the memory of this process into huge pages, if the kernel supports it (Linux 6.1 or later).

    A fork copies the page tables: with pages of 2 MiB these have about 500 times fewer entries, so forking is cheaper.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as file:
        regions = [line.split() for line in file]
    for place, access, _, _, _, *name in regions:
        start, end = (int(number, 16) for number in place.split("-"))
        # Private writable memory without a file: the heap and anonymous mappings, which hold the objects of Python.
        if access == "rw-p" and name in ([], ["[heap]"]) and end - start >= _HUGE_PAGE:
            madvise(start, end - start, _MADV_COLLAPSE)  # the result is ignored: a failure only makes forks slower
