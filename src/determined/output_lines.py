"""Limits and log levels of printed lines as they are stored."""

from __future__ import annotations

import re

# The store and viewers handle a log line by line; a program may print megabytes without a line end.
LONGEST = 16 * 1024

# A line that is too long is cut after a space if there is one near the end: a cut through a secret would prevent
# masking.
_LONGEST_WORD = 1024

# "WARNING: text" as this library prints it, and "WARNING:root:text" as `logging.basicConfig()` does.
_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?: |[\w.]+:)")


def level_of(text: str) -> str | None:
    """Return the log level at the beginning of a line, or None."""
    found = _LEVEL.match(text)
    return found[1] if found else None


def pieces(line: bytes) -> list[bytes]:
    """Return a line as a list: several pieces if it is too long."""
    cut = []
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        # `rfind` returns -1 if there is no space, which makes 0, and `or` takes the complete length.
        end = line.rfind(b" ", end - _LONGEST_WORD, end) + 1 or end
        cut.append(line[start:end])
        start = end
    return [*cut, line[start:]]
