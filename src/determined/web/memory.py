"""Keep the memory of the server small: free memory is returned to the system after a large response."""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8  # from malloc.h

# Only glibc has these functions; other systems use memory differently.
_WITHOUT_GLIBC = (AttributeError, OSError)


def share_memory_between_threads() -> None:
    """Let all threads share two malloc arenas: with one for each thread, glibc keeps the peak usage of every thread."""
    with contextlib.suppress(*_WITHOUT_GLIBC):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def give_back_memory() -> None:
    """Return free memory to the system. Without it glibc returns only the end of the heap."""
    with contextlib.suppress(*_WITHOUT_GLIBC):
        ctypes.CDLL(None).malloc_trim(0)
