"""Printed lines as they are stored: how long they may be, their log level, and the states of progress bars."""

from __future__ import annotations

import re
from typing import NamedTuple

# The store and viewers handle a log line by line; a program may print megabytes without a line end.
LONGEST = 16 * 1024

# A line that is too long is cut after a space if there is one near the end: a cut through a secret would prevent
# masking.
_LONGEST_WORD = 1024

# The present state of a progress bar is stored at this interval. Programs rewrite it up to a hundred times a second.
_SECONDS_BETWEEN_STATES = 2.0

# "WARNING: text" as this library prints it, and "WARNING:root:text" as `logging.basicConfig()` does.
_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?: |[\w.]+:)")


def level_of(text: str) -> str | None:
    """Return the log level at the beginning of a line, or None."""
    found = _LEVEL.match(text)
    return found[1] if found else None


def pieces(line: bytes, longest: int = LONGEST) -> list[bytes]:
    """Return a line as a list: several pieces if it is too long."""
    cut = []
    start = 0
    while len(line) - start > longest:
        end = start + longest
        # `rfind` returns -1 if there is no space, which makes 0, and `or` takes the complete length.
        end = line.rfind(b" ", end - _LONGEST_WORD, end) + 1 or end
        cut.append(line[start:end])
        start = end
    return [*cut, line[start:]]


class SplitLine(NamedTuple):
    """A line of output, or a piece of one that is too long.

    `finished` is False for the present state of a progress bar, which the next line of the stream replaces.
    """

    text: bytes
    finished: bool = True


class LineSplitter:
    """Joins blocks of bytes, cut at any place, into lines.

    A line that a program rewrites after carriage returns, as progress bars do, is one line with its last state. While
    it grows, its present state is returned every few seconds.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._pending = b""
        self._state_since: float | None = None  # when the last state of a progress bar was returned, or its first came

    def feed(self, block: bytes, now: float) -> list[SplitLine]:
        """Return the lines that this block completes."""
        *ended, pending = (self._pending + block).split(b"\n")
        lines = [line for text in ended for line in self._lines(last_state(text))]
        if ended:
            self._state_since = None
        *states, rest = pending.split(b"\r")
        state = next((each for each in reversed(states) if each), b"")
        # A carriage return at the end is kept: a line end may follow, and otherwise the line is written again.
        self._pending = rest or (state + b"\r" if state else b"")
        if state and self._is_due(now):
            lines.append(SplitLine(state[: self._longest], finished=False))
        # A program may write megabytes without a line end. Complete pieces are passed on, so that memory stays bounded.
        if len(self._pending) >= self._longest:
            *full, self._pending = pieces(self._pending, self._longest)
            lines += map(SplitLine, full)
        return lines

    def flush(self) -> list[SplitLine]:
        """Return the unfinished last line, if any."""
        pending, self._pending = last_state(self._pending), b""
        return self._lines(pending) if pending else []

    def _lines(self, text: bytes) -> list[SplitLine]:
        return [SplitLine(piece) for piece in pieces(text, self._longest)]

    def _is_due(self, now: float) -> bool:
        """Return whether the state of a progress bar is to be returned."""
        if self._state_since is None:
            self._state_since = now
            return False  # most bars that end soon need no state in between
        if now - self._state_since < _SECONDS_BETWEEN_STATES:
            return False
        self._state_since = now
        return True


def last_state(line: bytes) -> bytes:
    """Return what a terminal shows of a line with carriage returns, ignoring remains of longer earlier states."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"") if b"\r" in line else line
