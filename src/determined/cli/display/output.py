"""Print a result as a table, CSV or JSON."""

from __future__ import annotations

import csv
import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal, TextIO, TypeVar

import click

from determined.cli.display.table import Column, Row, table
from determined.config.metric_values import json_value

Form = Literal["table", "csv", "json"]
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
