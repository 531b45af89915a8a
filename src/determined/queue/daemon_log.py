"""The log file of the queue daemon: timestamped lines, limited in size."""

from __future__ import annotations

import os
import time

from determined.sentences import counted

# No other program rotates this log, so it limits itself and keeps its last lines.
_MOST_BYTES = 1 << 20
_KEPT_BYTES = 1 << 16  # much less than the limit, so that the file is rewritten rarely


class DaemonLog:
    """Writes the daemon's log to a file descriptor opened for reading and appending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lost = 0

    def write(self, words: str) -> None:
        """Append a line.

        If it cannot be written, for example on a full disk, the next line reports how many were lost.
        """
        before = f"({counted(self._lost, 'line')} before this one could not be written) " if self._lost else ""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S%z')} {before}{words}\n"
        try:
            self._shorten()
            os.write(self._descriptor, line.encode(errors="backslashreplace"))
        # A daemon must not end because its log cannot be written.
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def _shorten(self) -> None:
        """Truncate the log to its last lines when it becomes too large."""
        size = os.fstat(self._descriptor).st_size
        if size > _MOST_BYTES:
            end = os.pread(self._descriptor, _KEPT_BYTES, size - _KEPT_BYTES)
            os.ftruncate(self._descriptor, 0)  # O_APPEND makes the next write start at the new end
            # The first line is cut by the position, so it is dropped.
            os.write(self._descriptor, end.partition(b"\n")[2])
