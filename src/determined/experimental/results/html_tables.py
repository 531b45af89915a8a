"""Show objects of the SDK as HTML tables in notebooks. All texts are escaped, because they are untrusted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

Cells = dict[str, Any]  # name of a column to its value

# More rows make a notebook slow, and are not read.
_MOST_ROWS = 100
# A longer text, such as a traceback, would push the other columns out of the page.
_MOST_CHARACTERS = 200


class Shown(Protocol):
    """An object that can be shown in a table."""

    def _cells(self) -> Cells:
        """Return the columns that are always shown."""
        ...

    def _settings(self) -> Cells:
        """Return the columns that are shown only if objects differ in them."""
        ...


T = TypeVar("T", bound=Shown)


class ShownList(list[T]):
    """A list that a notebook shows as a table; slices are such lists, too."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> ShownList[T]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | ShownList[T]:
        if isinstance(index, slice):
            # A slice of a list is a plain list otherwise, and would lose its table.
            return ShownList(super().__getitem__(index))
        return super().__getitem__(index)

    def _repr_html_(self) -> str:
        return table_of(self)


def table_of_one(item: Shown) -> str:
    """Return a table of one object, with one row per value."""
    cells = joined(item._cells(), item._settings())
    rows = [_row([name, value], head=1) for name, value in cells.items() if _text(value)]
    return f"<p>{_escaped(type(item).__name__)}</p>{_table(rows)}"


def table_of(items: Sequence[Shown]) -> str:
    """Return a table with one row per object, without empty columns."""
    if not items:
        return "<p>empty list</p>"
    shown = items[:_MOST_ROWS]
    cells, settings = [item._cells() for item in shown], [item._settings() for item in shown]
    # Values that are equal for all rows would only widen the table.
    varying = [name for name in _names(settings) if len({_text(row.get(name)) for row in settings}) > 1]
    rows = [
        joined(fixed, {name: setting.get(name) for name in varying})
        for fixed, setting in zip(cells, settings, strict=True)
    ]
    columns = [name for name in _names(rows) if any(_text(row.get(name)) for row in rows)]
    body = [_row([row.get(name) for name in columns]) for row in rows]
    more = len(items) - len(shown)
    return _table([_row(columns, head=len(columns)), *body]) + (f"<p>and {more:,} more</p>" if more else "")


def joined(cells: Cells, named_by_users: Cells) -> Cells:
    """Return both dicts.

    A name chosen by the user that equals a column name is marked instead of replacing the column.
    """
    return {
        **cells,
        **{(f"{name} (value)" if name in cells else name): named_by_users[name] for name in named_by_users},
    }


def _names(rows: Sequence[Cells]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _table(rows: Sequence[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _row(values: Sequence[Any], *, head: int = 0) -> str:
    """Return a table row whose first `head` cells are header cells."""
    tags = ["th"] * head + ["td"] * (len(values) - head)
    return f"<tr>{''.join(f'<{tag}>{_escaped(value)}</{tag}>' for tag, value in zip(tags, values, strict=True))}</tr>"


def _escaped(value: Any) -> str:
    """Return a value as HTML text."""
    from html import escape  # imported on use: only notebooks need it

    # Half of a surrogate pair, which JSON can contain, cannot be sent to a browser.
    return escape(_text(value).encode("utf-8", "replace").decode())


def _text(value: Any) -> str:
    """Return a value as the text of a table cell, shortened if it is long."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S %Z}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, set, tuple)):
        # A set has no order, and the table should not change with each display.
        value = ", ".join(sorted(map(str, value)) if isinstance(value, set) else map(str, value))
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
