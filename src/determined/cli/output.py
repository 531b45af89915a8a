"""One result in the form somebody asked for: a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal, TextIO, TypeVar

import click

from determined.cli.render import Column, Row, table

Form = Literal["table", "csv", "json"]
F = TypeVar("F", bound=Callable[..., Any])


def with_json(command: F) -> F:
    """Give a command the option `--json`, as the argument `form`."""
    return click.option("--json", "form", flag_value="json", default="table", help="Print JSON.")(command)


def with_csv(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--csv` and `--json`, of which one can be given, as the argument `form`."""

    @click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def formed(*args: Any, as_csv: bool, as_json: bool, **kwargs: Any) -> Any:
        if as_csv and as_json:
            raise click.UsageError("--csv excludes --json")
        return command(*args, form="csv" if as_csv else "json" if as_json else "table", **kwargs)

    return formed


def show(form: Form, columns: Sequence[Column], rows: Sequence[Row], plain: Callable[[], Any]) -> None:
    """Print a list; `plain` gives it for JSON, where it may hold more than the table has columns."""
    if form == "json":
        print_json(plain())
    elif form == "csv":
        write_csv(sys.stdout, columns, rows)
    else:
        click.echo(table(columns, rows))


_collected: list[list[Any]] = []  # of commands that are carried out for several objects


@contextmanager
def collected_json() -> Iterator[list[Any]]:
    """Collect what is printed as JSON meanwhile, so that a command for several objects prints one list."""
    _collected.append([])
    try:
        yield _collected[-1]
    finally:
        _collected.pop()


def print_json(value: Any) -> None:
    """Print a value as JSON, or add it to the list of a command for several objects."""
    if _collected:
        _collected[-1] += value if isinstance(value, list) else [value]
        return
    # In ASCII, so that no text of a program reaches a terminal as it is.
    click.echo(json.dumps(jsonable(value), indent=2))


def print_json_line(value: Any) -> None:
    """Print one object on a line, for output that grows."""
    click.echo(json_line(value))


def json_line(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(jsonable(value))


def write_csv(file: TextIO, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    writer.writerows([[_csv_value(value) for value in row] for row in rows])


def jsonable(value: Any) -> Any:
    """What JSON has no word for, as text: NaN and the infinities."""
    if isinstance(value, dict):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def iso_time(seconds: float | None) -> str | None:
    """A moment in UTC, as ISO 8601."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _csv_value(value: Any) -> Any:
    return json.dumps(jsonable(value)) if isinstance(value, (dict, list, tuple)) else jsonable(value)
