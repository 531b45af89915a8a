"""Tables as people read them: a head, a line, rows; columns as wide as what is in them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from determined.cli import text
from determined.cli.zone import shown_zone

_NARROWEST = 12


@dataclass(frozen=True)
class Column:
    """A column of a table; one that is long may be cut where a terminal is too narrow for the whole table."""

    name: str
    long: bool = False


Row = Sequence[Any]


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The table, as wide as the terminal allows; in a file or a pipe nothing is cut."""
    names = [text.visible(column.name) for column in columns]
    cells = [[text.visible(cell(value)) for value in row] for row in rows]
    widths = [max(map(text.width, in_column)) for in_column in zip(names, *cells, strict=True)]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        widths = _fitted(widths, [column.long for column in columns], room - 3 * len(columns) + 1)
    numbers = [_are_numbers(in_column) for in_column in zip(*rows, strict=True)] or [False] * len(columns)
    lines = [
        _line(names, widths, numbers),
        "+".join("-" * (width + 2) for width in widths),
        *(_line(row, widths, numbers) for row in cells),
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """One value, as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def number(value: float) -> str:
    """Six digits are enough to look at; what is no number keeps its name."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.6g}"


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f}%"


def time_text(seconds: float | None) -> str:
    """A moment in the viewer's zone, or in UTC with `--utc`."""
    if seconds is None:
        return ""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(shown_zone()):%Y-%m-%d %H:%M:%S%z}"


def duration(seconds: float) -> str:
    """`48s`, `3m 20s`, `2h 05m`, `3d 04h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def size(count: float) -> str:
    """Bytes, in the unit that keeps the number small."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def some(names: Sequence[str], most: int = 10) -> str:
    """The first few of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = []
    for content, width, right in zip(cells, widths, numbers, strict=True):
        shown = text.cut(content, width)
        padding = " " * (width - text.width(shown))
        padded.append(padding + shown if right else shown + padding)
    return (" " + " | ".join(padded)).rstrip()


def _are_numbers(values: Sequence[Any]) -> bool:
    filled = [value for value in values if value is not None]
    return bool(filled) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in filled)


def _fitted(widths: list[int], long: list[bool], room: int) -> list[int]:
    """Take from the widest of the long columns until the row fits, or nothing more can be taken."""
    fitted = list(widths)
    while sum(fitted) > room:
        candidates = [i for i, width in enumerate(fitted) if long[i] and width > _NARROWEST]
        if not candidates:
            break
        widest = max(candidates, key=lambda i: fitted[i])
        fitted[widest] -= 1
    return fitted
