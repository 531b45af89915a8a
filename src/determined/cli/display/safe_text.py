"""Make text of programs safe for a terminal: control characters are shown, not executed."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import NamedTuple, TextIO

# C0 and C1 controls, line separators, lone surrogates, and marks that change the direction of text.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def visible(text: str) -> str:
    """Return a text as one line, with every control character as a readable escape."""
    return _UNSAFE.sub(lambda found: _escape(found.group()), text)


class ColumnText(NamedTuple):
    """The texts of a column, as `visible` returns them, and the width of the widest."""

    texts: list[str]
    width: int
    is_ascii: bool  # each text is as wide as it is long


def column_text(texts: list[str]) -> ColumnText:
    """Return a column that can be shown; usually all of it is printable ASCII, which one check finds out."""
    together = "".join(texts)
    if not together.isprintable():  # no unsafe character is printable
        texts = list(map(visible, texts))
        together = "".join(texts)
    is_ascii = together.isascii()
    return ColumnText(texts, max(map(len if is_ascii else width, texts)), is_ascii)


def padded(texts: list[str], columns: int, *, right: bool) -> list[str]:
    """Return all texts with exactly this width: cut, or padded with spaces, on the left with `right`."""
    shown = [cut(text, columns) for text in texts]
    gaps = [" " * (columns - width(text)) for text in shown]
    return [gap + text if right else text + gap for text, gap in zip(shown, gaps, strict=True)]


def visible_lines(text: str) -> str:
    """Return a text of several lines with control characters escaped, except for line breaks."""
    return "\n".join(visible(line) for line in text.split("\n"))


def log_line(text: str, stream: TextIO | None = None) -> str:
    """Return a log line: unchanged for a file or a pipe, without colours and control characters for a terminal."""
    if not (stream or sys.stdout).isatty():
        # Files and pipes get the bytes as the program wrote them, colours included.
        return text
    return visible(_COLOUR.sub("", text).expandtabs(8))


def width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def cut(text: str, columns: int) -> str:
    """Return the text cut to at most `columns` columns; an ellipsis marks a cut."""
    if width(text) <= columns:
        return text
    # One column is needed for the ellipsis.
    room = columns - 1
    kept = []
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _character_width(character: str) -> int:
    """Return how many terminal columns a character takes."""
    # Marks that are drawn over the character before them take no column.
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(character: str) -> str:
    """Return a readable escape sequence for a control character."""
    known = _NAMED.get(character)
    if known is not None:
        return known
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
