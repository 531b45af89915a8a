"""Limit how much printed output is stored, per second and in total, and note what was omitted."""

from __future__ import annotations

from typing import NamedTuple

from determined.sentences import counted

# A program that prints in a tight loop must neither fill the disk of the store nor delay the reports of metrics, which
# the same thread writes.
LINES_IN_A_SECOND, LINES_AT_ONCE = 1000, 20_000
BYTES_IN_A_SECOND, BYTES_AT_ONCE = 2**20, 16 * 2**20
BYTES_IN_ALL = 256 * 2**20  # 256 MiB per rank; a program that prints all the time must not fill the disk


class PrintedLine(NamedTuple):
    """A line as it is stored."""

    stream: str
    text: str
    written: float
    level: str | None = None


class OutputLimit:
    """A token bucket that limits stored lines; a burst is admitted if quieter seconds make up for it."""

    def __init__(self) -> None:
        self._lines: float = LINES_AT_ONCE
        self._bytes: float = BYTES_AT_ONCE
        self._total = 0
        self._since: float | None = None
        self._dropped = 0

    def admitted(self, lines: list[PrintedLine]) -> list[PrintedLine]:
        """Return the lines to store, preceded by a line that counts those omitted before them."""
        kept: list[PrintedLine] = []
        for line in lines:
            self._refill(line.written)
            # Characters instead of bytes: encoding every line only to measure it would be slow.
            size = len(line.text)
            if self._lines < 1 or self._bytes < size or self._total + size > BYTES_IN_ALL:
                self._dropped += 1
                continue
            kept += self.summary(line.written)
            self._lines -= 1
            self._bytes -= size
            self._total += size
            kept.append(line)
        return kept

    def note_dropped(self) -> None:
        """Count a line that was omitted elsewhere."""
        self._dropped += 1

    def summary(self, now: float) -> list[PrintedLine]:
        """Return a line about the lines omitted since the last summary, if any."""
        if not self._dropped:
            return []
        count, self._dropped = self._dropped, 0
        why = f"logs have at most {LINES_IN_A_SECOND:,} lines and 1 MiB in a second, and 256 MiB in all"
        lines = counted(count, "line was", "lines were")
        return [PrintedLine("stderr", f"WARNING: {lines} not stored here: {why}", now, "WARNING")]

    def _refill(self, now: float) -> None:
        """Add the tokens for the time since the last call."""
        # The clock may have been set back.
        seconds = 0.0 if self._since is None else max(0.0, now - self._since)
        self._since = now
        self._lines = min(LINES_AT_ONCE, self._lines + seconds * LINES_IN_A_SECOND)
        self._bytes = min(BYTES_AT_ONCE, self._bytes + seconds * BYTES_IN_A_SECOND)
