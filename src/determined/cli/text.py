"""Text that a program wrote, made harmless for a terminal: what would move the cursor is shown, not obeyed."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import NamedTuple, TextIO

# C0 and C1 controls, line separators, lone surrogates, and marks that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def visible(text: str) -> str:
    """One line: every control character as an escape that can be read."""
    return _UNSAFE.sub(lambda found: _escape(found.group()), text)


class ColumnText(NamedTuple):
    """The texts of a column, as `visible` shows them, and the width of the widest."""

    texts: list[str]
    width: int
    is_ascii: bool  # each text is as wide as it has characters


def column_text(texts: list[str]) -> ColumnText:
    """Return a column that can be shown; as a rule all of it is harmless ASCII, which one look at it tells."""
    together = "".join(texts)
    if not together.isprintable():  # no unsafe character is printable
        texts = list(map(visible, texts))
        together = "".join(texts)
    is_ascii = together.isascii()
    return ColumnText(texts, max(map(len if is_ascii else width, texts)), is_ascii)


def padded(texts: list[str], columns: int, *, right: bool) -> list[str]:
    """Return all texts with exactly this width: cut, or filled with spaces, which are put before them with `right`."""
    shown = [cut(text, columns) for text in texts]
    gaps = [" " * (columns - width(text)) for text in shown]
    return [gap + text if right else text + gap for text, gap in zip(shown, gaps, strict=True)]


def visible_lines(text: str) -> str:
    """The same for a text of several lines: they stay lines."""
    return "\n".join(visible(line) for line in text.split("\n"))


def log_line(text: str, stream: TextIO | None = None) -> str:
    """A line of a log: as it was written for a file or a pipe; on a terminal without colours and control characters."""
    if not (stream or sys.stdout).isatty():
        return text
    return visible(_COLOUR.sub("", text).expandtabs(8))


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; where something is missing stands a mark."""
    if width(text) <= columns:
        return text
    room = columns - 1
    kept = []
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(character: str) -> str:
    known = _NAMED.get(character)
    if known is not None:
        return known
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
