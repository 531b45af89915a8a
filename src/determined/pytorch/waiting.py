"""A line now and then while a person waits for something that nobody can see."""

from __future__ import annotations

import contextlib
import sys
import time

from determined.pytorch.progress import is_wanted

_SECONDS_BETWEEN_LINES = 2.0


class Waiting:
    """Says on standard error how far something is, if it takes longer than two seconds."""

    def __init__(self, what: str, batches: int, *, visible: bool) -> None:
        self._what = what
        self._batches = batches
        self._visible = visible and sys.stderr is not None and is_wanted()
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def tick(self, done: int) -> None:
        if self._visible and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            with contextlib.suppress(OSError, ValueError):  # whoever read it is gone: training is not
                sys.stderr.write(f"{self._what}: batch {done}/{self._batches}\n")
                sys.stderr.flush()
