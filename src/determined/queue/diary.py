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
        self._lost = 0

    def write(self, words: str) -> None:
        """A line that cannot be written, as on a full disk, is lost; the next one that can be says so."""
        before = f"({self._lost} lines before this one could not be written) " if self._lost else ""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S%z')} {before}{words}\n"
        try:
            self._shorten()
            os.write(self._descriptor, line.encode(errors="backslashreplace"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def _shorten(self) -> None:
        """Keep the end of it, from the beginning of a line on."""
        size = os.fstat(self._descriptor).st_size
        if size > _MOST_BYTES:
            end = os.pread(self._descriptor, _KEPT_BYTES, size - _KEPT_BYTES)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, end.partition(b"\n")[2])
