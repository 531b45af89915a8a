"""Lists: paging, the choice of columns, and output as a table, CSV or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, Literal, TypeVar

import click

from determined.cli.display.output import Form, print_json, write_csv
from determined.cli.display.table import Column, Row, fitted_table, hidden_note
from determined.cli.selection.ids import Count

T = TypeVar("T")


@dataclass(frozen=True)
class Page:
    """The part of a list to show; without a limit everything after the offset."""

    limit: int | None
    offset: int

    def of(self, rows: list[Any]) -> list[Any]:
        """Return this part of the rows."""
        return rows[self.offset :] if self.limit is None else rows[self.offset : self.offset + self.limit]


def paging(rows: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds these options to a command, as the argument `page`, with `rows` rows per page."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--limit", type=Count(min=1), default=rows, show_default=True, help="Rows per page.")
        @click.option("--offset", type=Count(min=0), default=0, help="Skip the first N rows.")
        @click.option(
            "--pages",
            type=click.Choice(["1", "all"]),
            default="1",
            show_default=True,
            help="Show one page or all rows.",
        )
        @wraps(command)
        def paged(*args: Any, limit: int, offset: int, pages: str, **kwargs: Any) -> Any:
            return command(*args, page=Page(None if pages == "all" else limit, offset), **kwargs)

        return paged

    return with_options


with_paging = paging(200)


@dataclass(frozen=True)
class Field(Generic[T]):
    """A column that a list can have.

    `value` returns the cell for pipes and CSV files, `on_terminal` the one for terminals if it differs. `shown` is
    where the column appears by default: scripts rely on the columns in pipes, so new columns are for terminals only.
    """

    name: str
    value: Callable[[T], Any]
    on_terminal: Callable[[T], Any] | None = None
    shown: Literal["everywhere", "pipe", "terminal", "wide"] = "everywhere"
    long: bool = False
    rank: int = 1


@dataclass(frozen=True)
class ColumnChoice:
    """The values of `--wide` and `--columns`."""

    wide: bool = False
    names: str | None = None

    def fields(self, known: Sequence[Field[T]], *, terminal: bool) -> list[Field[T]]:
        """Return the fields to show; raise a usage error for an unknown name."""
        if self.names is not None:
            return [_named(known, name) for name in self.names.split(",")]
        if self.wide:
            return list(known)
        places = ("everywhere", "terminal" if terminal else "pipe")
        return [field for field in known if field.shown in places]


def with_columns(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--wide` and `--columns` to a list command, as the argument `columns`."""

    @click.option("--wide", is_flag=True, help="Show all columns, even if rows become wider than the terminal.")
    @click.option("--columns", "names", metavar="NAMES", help="Show these columns, for example id,name,best.")
    @wraps(command)
    def choosing(*args: Any, wide: bool, names: str | None, **kwargs: Any) -> Any:
        if wide and names is not None:
            raise click.UsageError("--wide excludes --columns")
        if wide and kwargs.get("form") == "csv":
            raise click.UsageError("--wide is for tables; choose the columns of CSV with --columns")
        return command(*args, columns=ColumnChoice(wide, names), **kwargs)

    return choosing


def show_list(
    form: Form,
    known: Sequence[Field[T]],
    items: Sequence[T],
    plain: Callable[[], Any],
    columns: ColumnChoice,
) -> None:
    """Print a list of items as a table, CSV or JSON; `plain` returns the JSON data."""
    if form == "json":
        print_json(plain())
    elif form == "csv":
        fields = columns.fields(known, terminal=False)
        write_csv(sys.stdout, _columns(fields), [[field.value(item) for field in fields] for item in items])
    else:
        click.echo(list_text(known, items, columns))


def list_text(
    known: Sequence[Field[T]],
    items: Sequence[T],
    columns: ColumnChoice,
    *,
    remark: str = "--wide shows all columns",
) -> str:
    """Return the list as a table, with a line about columns that do not fit the terminal."""
    terminal = sys.stdout.isatty()
    fields = columns.fields(known, terminal=terminal)
    cells: list[Row] = [
        [(field.on_terminal if terminal and field.on_terminal else field.value)(item) for field in fields]
        for item in items
    ]
    shown, hidden = fitted_table(_columns(fields), cells, wide=columns.wide)
    return f"{shown}\n{hidden_note(hidden, remark)}" if hidden and items else shown


def script_row(known: Sequence[Field[T]], item: T) -> tuple[list[Column], Row]:
    """Return the columns that a list has in a pipe, and the row of one item, for commands that show a single item."""
    fields = ColumnChoice().fields(known, terminal=False)
    return _columns(fields), [field.value(item) for field in fields]


def script_columns(known: Sequence[Field[Any]]) -> list[Column]:
    """Return the columns that a list has in a pipe."""
    return _columns(ColumnChoice().fields(known, terminal=False))


def _columns(fields: Sequence[Field[Any]]) -> list[Column]:
    """Return the table columns of these fields."""
    return [Column(field.name, field.long, field.rank) for field in fields]


def _named(known: Sequence[Field[T]], name: str) -> Field[T]:
    """Return the field with that name or an unambiguous beginning of it, ignoring case, dashes and underscores."""
    by_name = {_plain(field.name): field for field in known}
    begins = [field for plain, field in by_name.items() if plain.startswith(f"{_plain(name)} ")]
    found = by_name.get(_plain(name)) or (begins[0] if len(begins) == 1 else None)
    if found is None:
        from difflib import get_close_matches  # importing it takes longer than printing most lists

        near = get_close_matches(_plain(name), list(by_name), n=1)
        hint = f" Did you mean {by_name[near[0]].name!r}?" if near else ""
        names = ", ".join(dict.fromkeys(field.name for field in known))
        raise click.UsageError(f"No column {name.strip()!r}.{hint} There are: {names}")
    return found


def _plain(name: str) -> str:
    """Return a column name in lower case, with single spaces in place of dashes and underscores."""
    return " ".join(name.lower().replace("_", " ").replace("-", " ").split())
