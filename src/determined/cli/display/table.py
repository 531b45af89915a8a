"""Format tables that fit the terminal, one object as a line per property, and the values of both."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from determined.cli.display import safe_text
from determined.config.flattening import flat
from determined.sentences import counted

_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as in JSON output

Row = Sequence[Any]
_NARROWEST_VALUE = 20  # minimum width of the values of one object, even beside long names
NARROWEST = 12  # minimum width to which a column of long texts is cut


@dataclass(frozen=True)
class Column:
    """A column of a table.

    If a terminal is too narrow for the table, long columns are cut first; then columns are hidden, those with the
    highest rank first. Columns of rank 0 are always shown.
    """

    name: str
    long: bool = False
    rank: int = 1


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return the table, fitted to the width of the terminal; in a file or a pipe nothing is cut or hidden."""
    shown, hidden = fitted_table(columns, rows, wide=False)
    return f"{shown}\n{hidden_note(hidden, 'the terminal is too narrow')}" if hidden and rows else shown


def hidden_note(names: Sequence[str], remark: str) -> str:
    """Return a line about hidden columns, which itself fits the terminal."""
    note = safe_text.visible(f"Hidden: {', '.join(names)} ({remark})")
    if safe_text.width(note) <= shutil.get_terminal_size().columns:
        return note
    return f"{counted(len(names), 'column')} hidden ({remark})"


def fitted_table(columns: Sequence[Column], rows: Sequence[Row], *, wide: bool) -> tuple[str, list[str]]:
    """Return the table, and the names of the columns that do not fit the terminal.

    On a terminal empty columns are left out. With `wide` all others are shown and nothing is cut. The table is built
    column by column, because a column of plain ASCII needs no check of its cells.
    """
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    cells = [
        safe_text.column_text([column.name, *_cells(in_column)])
        for column, in_column in zip(columns, values, strict=True)
    ]
    widths = {position: in_column.width for position, in_column in enumerate(cells)}
    hidden: list[str] = []
    if sys.stdout.isatty():
        widths = {position: width for position, width in widths.items() if not rows or any(cells[position].texts[1:])}
    if sys.stdout.isatty() and not wide:
        filled = list(widths)
        fitted = fit(
            list(widths.values()),
            [columns[position].long for position in filled],
            [columns[position].rank for position in filled],
            shutil.get_terminal_size().columns,
        )
        widths = {filled[place]: width for place, width in fitted.items()}
        hidden = [columns[position].name for position in filled if position not in widths]
    shown, templates = [], []
    for position, width in widths.items():
        in_column, right = cells[position], _are_numbers(values[position])
        if in_column.is_ascii and in_column.width <= width:
            shown.append(in_column.texts)
            templates.append(f"%{width}s" if right else f"%-{width}s")
        else:
            shown.append(safe_text.padded(in_column.texts, width, right=right))
            templates.append("%s")
    template = " " + " | ".join(templates)
    head, *lines = [(template % line).rstrip() for line in zip(*shown, strict=True)]
    return "\n".join([head, "+".join("-" * (width + 2) for width in widths.values()), *lines]), hidden


def cell(value: Any) -> str:
    """Return one value as the text of a table cell."""
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
    """Return a number with six significant digits; NaN and infinities by name."""
    shown = f"{value:.6g}"
    return _NON_FINITE.get(shown, shown)


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage, or an empty string."""
    return "" if fraction is None else f"{100 * fraction:.1f}%"


def size(count: float) -> str:
    """Return a number of bytes in a readable unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _cells(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column; if all values have the same type, without checking each of them."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return list(values)
    if kinds == {int}:
        return list(map(str, values))
    # NaN and infinities have their own names, see `number`.
    if kinds == {float} and all(map(math.isfinite, values)):
        return list(map("%.6g".__mod__, values))
    return list(map(cell, values))


def _are_numbers(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values)) - {type(None)}
    return bool(kinds) and all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds)


def fit(widths: Sequence[int], long: Sequence[bool], ranks: Sequence[int], terminal: int) -> dict[int, int]:
    """Return the indices of the columns to show, with their widths.

    Long columns are cut first. If that is not enough, columns are hidden: those with the highest rank first, from the
    right. Columns of rank 0 are always shown.
    """
    shown = list(range(len(widths)))
    while True:
        available = terminal - 3 * len(shown) + 1  # a space before and after each cell, and a bar between two
        fitted = _cut({column: widths[column] for column in shown}, long, available)
        hideable = [column for column in shown if ranks[column] > 0]
        if sum(fitted.values()) <= available or not hideable:
            return fitted
        shown.remove(max(hideable, key=lambda column: (ranks[column], column)))


def _cut(widths: dict[int, int], long: Sequence[bool], available: int) -> dict[int, int]:
    """Narrow the widest long column repeatedly until the row fits, or all are at their minimum."""
    cut = dict(widths)
    while sum(cut.values()) > available:
        candidates = [column for column, width in cut.items() if long[column] and width > NARROWEST]
        if not candidates:
            break
        # Column by column and one character at a time, so that equal columns shrink equally.
        cut[max(candidates, key=lambda column: cut[column])] -= 1
    return cut


def one_row(columns: Sequence[Column], row: Row) -> str:
    """Return one row: on a terminal as lines, elsewhere as the table that scripts expect."""
    if not sys.stdout.isatty():
        return table(columns, [row])
    return details((column.name, value) for column, value in zip(columns, row, strict=True))


def details(properties: Iterable[tuple[str, Any]]) -> str:
    """Return a line for each property that is not empty; a dict gets a line for each of its values."""
    lines: list[tuple[str, str]] = []
    for name, value in properties:
        if isinstance(value, dict):
            lines += [(name, "")] if value else []
            lines += [(f"  {inner}", cell(found)) for inner, found in flat(value).items()]
        elif cell(value):
            lines.append((name, cell(value)))
    shown = [(safe_text.visible(name), safe_text.visible(value)) for name, value in lines]
    widest = max((safe_text.width(name) for name, _ in shown), default=0)
    # A file has no width, so nothing is wrapped.
    available = max(_NARROWEST_VALUE, shutil.get_terminal_size().columns - widest - 3) if sys.stdout.isatty() else 2**31
    return "\n".join(line for name, value in shown for line in _wrapped(name, value, widest, available))


def _wrapped(name: str, value: str, widest: int, available: int) -> list[str]:
    """Return the lines of a property, with the value wrapped to the available width."""
    head = f" {name}{' ' * (widest - safe_text.width(name))}  "
    pieces = [value] if safe_text.width(value) <= available else textwrap.wrap(value, available) or [""]
    return [f"{head if not number else ' ' * (widest + 3)}{piece}".rstrip() for number, piece in enumerate(pieces)]
