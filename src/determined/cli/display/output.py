"""Print results as a table, CSV or JSON; the options of lists: form, paging and columns."""

from __future__ import annotations

import csv
import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Generic, Literal, TextIO, TypeVar

import click

from determined.cli.display.table import Column, Row, fitted_table, hidden_note, table
from determined.cli.selection.arguments import Count
from determined.config.metric_values import json_value

Form = Literal["table", "csv", "json"]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


_collected: list[list[Any]] = []  # a stack: the outputs of commands that run for several objects


def with_json(command: F) -> F:
    """Add the option `--json` to a command, as the argument `form`."""
    return click.option("--json", "form", flag_value="json", default="table", help="Print JSON.")(command)


def with_csv(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the mutually exclusive options `--csv` and `--json` to a command, as the argument `form`."""

    @click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def formed(*args: Any, as_csv: bool, as_json: bool, **kwargs: Any) -> Any:
        if as_csv and as_json:
            raise click.UsageError("--csv excludes --json")
        return command(*args, form="csv" if as_csv else "json" if as_json else "table", **kwargs)

    return formed


def show(form: Form, columns: Sequence[Column], rows: Sequence[Row], plain: Callable[[], Any]) -> None:
    """Print a list in the chosen form; `plain` returns the JSON data, which may contain more than the columns."""
    if form == "json":
        print_json(plain())
    elif form == "csv":
        write_csv(sys.stdout, columns, rows)
    else:
        click.echo(table(columns, rows))


@contextmanager
def collected_json() -> Iterator[list[Any]]:
    """Collect what is printed as JSON inside the block, so that a command for several objects prints one list."""
    _collected.append([])
    try:
        yield _collected[-1]
    finally:
        _collected.pop()


def print_json(value: Any) -> None:
    """Print a value as JSON, or add it to the list that `collected_json` collects."""
    if _collected:
        _collected[-1] += value if isinstance(value, list) else [value]
        return
    # In ASCII, so that control characters in texts of a program cannot reach the terminal.
    click.echo(json.dumps(jsonable(value), indent=2))


def print_json_line(value: Any) -> None:
    """Print one object on a line, for output that grows."""
    click.echo(json_line(value))


def json_line(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(jsonable(value))


def write_csv(file: TextIO, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a header and rows as CSV; nested values are written as JSON."""
    # The csv module would write \r\n, which tools on Unix do not expect.
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    writer.writerows([[_csv_value(value) for value in row] for row in rows])


def jsonable(value: Any) -> Any:
    """Return a value with NaN and infinities, which JSON does not have, replaced by text."""
    if isinstance(value, dict):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    return json_value(value) if isinstance(value, float) else value


def iso_time(seconds: float | None) -> str | None:
    """Return a time in UTC as ISO 8601, or None."""
    # UTC, so that scripts get the same text on every machine.
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _csv_value(value: Any) -> Any:
    return json.dumps(jsonable(value)) if isinstance(value, (dict, list, tuple)) else jsonable(value)


def without_garbage_collection(command: F) -> F:
    """Pause the cyclic garbage collector while a command runs.

    For commands that read, print and exit: rows contain no cycles, and a collection at every 700th of them takes a
    fifth of the time of the command.
    """

    @wraps(command)
    def paused(*args: Any, **kwargs: Any) -> Any:
        gc.disable()
        try:
            return command(*args, **kwargs)
        finally:
            gc.enable()

    return paused  # type: ignore[return-value]


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
        # The values for scripts, also on a terminal: CSV is read by programs.
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
    # With the space, so that `best` finds "Best loss" but not "Bestiary".
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
