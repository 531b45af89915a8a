"""Split what a job writes to its pipes into lines with rank, log level and time."""

from __future__ import annotations

import os
import re
import select
import time

from determined.engines.base import Line
from determined.output_lines import LineSplitter, SplitLine, level_of

# The capacity of a pipe on Linux: one read empties it.
_BLOCK = 64 * 1024
_MOST_BLOCKS = 64  # 4 MiB, more than a pipe can hold
# Written by the launcher (`determined.launch.wrap_rank`) before each line of a rank; with `~` before it if the line is
# the present state of a progress bar.
_RANK = re.compile(r"(~?)\[rank=(\d+)\] ")


class Stream:
    """One output pipe of a job.

    Nothing is read in advance, so a job that writes faster than its lines are consumed blocks (back-pressure).
    """

    def __init__(self, key: str, stream: str, file: int, rank: int = 0) -> None:
        # A read must never block the engine: the descriptor may be reported as readable and be empty by then.
        os.set_blocking(file, False)
        self.key = key
        self.file = file
        self.ended = False
        self._splitter = Splitter(key, stream, rank)

    def read(self) -> list[Line]:
        """Return the lines completed by the next block; none if no data is available or the pipe was closed."""
        try:
            block = os.read(self.file, _BLOCK)
        except BlockingIOError:
            return []
        if not block:
            self.ended = True
            return self._splitter.flush(time.time())
        return self._splitter.feed(block, time.time())

    def read_all(self) -> list[Line]:
        """Return all remaining lines, including an unfinished last one. Called after the job has ended."""
        lines: list[Line] = []
        # Bounded, because a process outside the job may still hold the pipe and keep writing.
        for _ in range(_MOST_BLOCKS):
            # Without waiting: only what is already in the pipe belongs to the job.
            if self.ended or not select.select([self.file], [], [], 0)[0]:
                break
            lines += self.read()
        return lines + self._splitter.flush(time.time())

    def close(self) -> None:
        os.close(self.file)


class Splitter:
    """Joins blocks of bytes, cut at any place, into line events. `rank` is that of lines which name none."""

    def __init__(self, key: str, stream: str, rank: int = 0) -> None:
        self._key = key
        self._stream = stream
        self._rank = rank
        self._lines = LineSplitter()

    def feed(self, block: bytes, written: float) -> list[Line]:
        """Return the lines that this block completes."""
        return self._events(self._lines.feed(block, written), written)

    def flush(self, written: float) -> list[Line]:
        """Return the unfinished last line, if any."""
        return self._events(self._lines.flush(), written)

    def _events(self, lines: list[SplitLine], written: float) -> list[Line]:
        """Return line events for these lines."""
        return [self._line(text, finished, written) for text, finished in lines]

    def _line(self, raw: bytes, finished: bool, written: float) -> Line:
        """Return a line event; a prefix written by the launcher contains the rank."""
        # Output may be any bytes; none of them may raise or be lost.
        text = raw.decode(errors="backslashreplace")
        rank = self._rank
        if found := _RANK.match(text):
            rank, text = int(found[2]), text[found.end() :]
            finished = found[1] != "~"
        return Line(self._key, rank, self._stream, level_of(text), text, written, finished)
