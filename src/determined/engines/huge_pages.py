"""Make a process cheap to copy: its memory in pages of two megabytes, of which a fork has five hundred times fewer."""

from __future__ import annotations

import ctypes
import sys

_MADV_COLLAPSE = 25
_SIZE = 2 << 20


def use_huge_pages() -> None:
    """Put the memory that this process has now into huge pages, where the kernel (Linux 6.1 on) can."""
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as file:
        regions = [line.split() for line in file]
    for place, access, _, _, _, *name in regions:
        start, end = (int(number, 16) for number in place.split("-"))
        if access == "rw-p" and name in ([], ["[heap]"]) and end - start >= _SIZE:
            madvise(start, end - start, _MADV_COLLAPSE)  # a refusal costs speed and nothing else
