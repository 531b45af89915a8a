"""A line now and then while a person waits for something that nobody can see."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("determined.pytorch")

_SECONDS_BETWEEN_LINES = 2.0


class Waiting:
    """Says how far something is, if it takes longer than two seconds."""

    def __init__(self, what: str, batches: int) -> None:
        self._what = what
        self._batches = batches
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def tick(self, done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            logger.info("%s: batch %d of %d", self._what, done, self._batches)
