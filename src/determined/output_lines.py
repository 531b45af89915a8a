"""Lines that programs print, as they are stored: how long they may be, and which log level they name."""

from __future__ import annotations

import re

LONGEST = 16 * 1024

# A line that is too long is cut behind a space, if one is near: a cut through a secret would keep it from being masked.
_LONGEST_WORD = 1024

_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL): ")


def level_of(text: str) -> str | None:
    """Return the log level that a line begins with."""
    found = _LEVEL.match(text)
    return found[1] if found else None


def pieces(line: bytes) -> list[bytes]:
    """Return a line, or several when it is too long for one."""
    cut = []
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        end = line.rfind(b" ", end - _LONGEST_WORD, end) + 1 or end
        cut.append(line[start:end])
        start = end
    return [*cut, line[start:]]
