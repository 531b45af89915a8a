"""Objects of the SDK as HTML tables, for notebooks. All texts are escaped: programs and users write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

Cells = dict[str, Any]  # name of a column to its value

_MOST_ROWS = 100
_MOST_CHARACTERS = 200


class Shown(Protocol):
    """What a table can show."""

    def _cells(self) -> Cells:
        """Return what is worth a column."""
        ...

    def _settings(self) -> Cells:
        """Return what is worth a column only where objects differ in it."""
        ...


T = TypeVar("T", bound=Shown)


class ShownList(list[T]):
    """A list that a notebook shows as a table; slices of it are such lists."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> ShownList[T]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | ShownList[T]:
        if isinstance(index, slice):
            return ShownList(super().__getitem__(index))
        return super().__getitem__(index)

    def _repr_html_(self) -> str:
        return table_of(self)


def table_of_one(item: Shown) -> str:
    """Return a table of one object, with a row for each thing that is known of it."""
    cells = joined(item._cells(), item._settings())
    rows = [_row([name, value], head=1) for name, value in cells.items() if _text(value)]
    return f"<p>{_escaped(type(item).__name__)}</p>{_table(rows)}"


def table_of(items: Sequence[Shown]) -> str:
    """Return a table with a row for each object, without columns that are empty."""
    if not items:
        return "<p>empty list</p>"
    shown = items[:_MOST_ROWS]
    cells, settings = [item._cells() for item in shown], [item._settings() for item in shown]
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
    """Return both; a user's name that is also the name of a column of ours gets a mark, and replaces nothing."""
    return {
        **cells,
        **{(f"{name} (value)" if name in cells else name): named_by_users[name] for name in named_by_users},
    }


def _names(rows: Sequence[Cells]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _table(rows: Sequence[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _row(values: Sequence[Any], *, head: int = 0) -> str:
    """Return a row whose first `head` cells are names."""
    tags = ["th"] * head + ["td"] * (len(values) - head)
    return f"<tr>{''.join(f'<{tag}>{_escaped(value)}</{tag}>' for tag, value in zip(tags, values, strict=True))}</tr>"


def _escaped(value: Any) -> str:
    from html import escape  # a notebook needs it, programs do not

    return escape(_text(value))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S %Z}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, set, tuple)):
        value = ", ".join(sorted(map(str, value)) if isinstance(value, set) else map(str, value))
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
