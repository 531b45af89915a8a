"""`WaitingNotice`: print progress of a long operation before training begins."""

from __future__ import annotations

import contextlib
import sys
import time

from determined.pytorch.display.progress import is_wanted

# Long enough that short waits print nothing, short enough to be seen before a user interrupts.
_SECONDS_BETWEEN_LINES = 2.0


class WaitingNotice:
    """Prints on standard error how far an operation is, every two seconds."""

    def __init__(self, what: str, batches: int, *, visible: bool) -> None:
        self._what = what
        self._batches = batches
        self._visible = visible and sys.stderr is not None and is_wanted()
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def tick(self, done: int) -> None:
        """Print a line if two seconds have passed since the last one."""
        if self._visible and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            with contextlib.suppress(OSError, ValueError):  # a closed stream must not end training
                sys.stderr.write(f"{self._what}: batch {done}/{self._batches}\n")
                sys.stderr.flush()
