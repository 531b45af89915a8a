"""How the server uses memory: what a large answer needed is given back to the system when it was sent."""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8  # from malloc.h

# Only glibc has these functions; other systems use memory differently.
_WITHOUT_GLIBC = (AttributeError, OSError)


def share_memory_between_threads() -> None:
    """Let all threads allocate from two pools: with one for each, glibc keeps what every thread once used."""
    with contextlib.suppress(*_WITHOUT_GLIBC):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def give_back_memory() -> None:
    """Return unused memory to the system. By itself glibc returns only what lies behind everything that is in use."""
    with contextlib.suppress(*_WITHOUT_GLIBC):
        ctypes.CDLL(None).malloc_trim(0)
