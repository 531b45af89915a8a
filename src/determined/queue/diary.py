"""What the daemon says in the background: lines with their time in a file that does not grow for ever."""

from __future__ import annotations

import os
import time

_MOST_BYTES = 1 << 20
_KEPT_BYTES = 1 << 16


class Diary:
    """Over a file that whoever started us has opened, to be read and to be added to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, words: str) -> None:
        self._shorten()
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S%z')} {words}\n"
        os.write(self._descriptor, line.encode(errors="backslashreplace"))

    def _shorten(self) -> None:
        """Keep the end of it, from the beginning of a line on."""
        size = os.fstat(self._descriptor).st_size
        if size > _MOST_BYTES:
            end = os.pread(self._descriptor, _KEPT_BYTES, size - _KEPT_BYTES)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, end.partition(b"\n")[2])
