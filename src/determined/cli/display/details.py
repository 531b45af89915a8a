"""Show one object as a line per property, for objects that are too wide for a row of a table."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from determined.cli.display import safe_text
from determined.cli.display.table import Column, Row, cell, table
from determined.config.flattening import flat

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial

_NARROWEST = 20  # minimum width of the values, even beside long names


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
    available = max(_NARROWEST, shutil.get_terminal_size().columns - widest - 3) if sys.stdout.isatty() else 2**31
    return "\n".join(line for name, value in shown for line in _wrapped(name, value, widest, available))


def _wrapped(name: str, value: str, widest: int, available: int) -> list[str]:
    """Return the lines of a property, with the value wrapped to the available width."""
    head = f" {name}{' ' * (widest - safe_text.width(name))}  "
    pieces = [value] if safe_text.width(value) <= available else textwrap.wrap(value, available) or [""]
    return [f"{head if not number else ' ' * (widest + 3)}{piece}".rstrip() for number, piece in enumerate(pieces)]


def trial_facts(row: Trial) -> list[str]:
    """Return lines about the processes of a trial: the command of a standalone run, and why the trial ended."""
    lines = []
    if row.command is not None:
        commit = f", git commit {row.git_commit[:12]}" if row.git_commit else ""
        lines.append(f"Trial {row.id}: started on {row.host}{commit}: {row.command}")
    restarts = f" after {row.restarts} restart{'s' if row.restarts > 1 else ''}" if row.restarts else ""
    code = f" (exit code {row.exit_code})" if row.exit_code else ""
    if row.reason:
        separator = "\n" if "\n" in row.reason else " "
        lines.append(f"Trial {row.id}: {row.state}{restarts}{code}:{separator}{row.reason}")
    elif code:
        lines.append(f"Trial {row.id}: {row.state}{code}")
    return lines
