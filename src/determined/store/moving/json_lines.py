"""The JSON lines format of an export: a header line, a line for each row, and a final line with row counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from determined.config.metric_values import json_value
from determined.errors import StoreError
from determined.store.databases.tables import Table
from determined.store.moving.format import Header, not_an_export, read_header
from determined.store.moving.reading_store import Rows

# Four times the largest text of a column (`row_checks.py`), to leave space for escapes.
_LONGEST_LINE = 256 * 1024 * 1024
_ROWS_AT_ONCE = 1_000  # bounds the memory of an import


class JsonLinesWriter:
    """Writes rows to an open file as JSON lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._counts: dict[str, int] = {}
        self._line(Header().plain())

    def write(self, table: Table, rows: Rows) -> None:
        self._counts[table.name] = self._counts.get(table.name, 0) + len(rows)
        for row in rows:
            self._line({"table": table.name, "row": {name: _plain(value) for name, value in row.items()}})

    def finish(self) -> None:
        self._line({"end": self._counts})

    def close(self) -> None:
        """Do nothing: the caller closes the file that it opened."""

    def _line(self, value: Mapping[str, Any]) -> None:
        """Write a value as one line of JSON."""
        # ASCII and no NaN, so that every JSON parser accepts the file.
        self._file.write(json.dumps(value, allow_nan=False) + "\n")


def read_json_lines(path: Path, place: str) -> Iterator[tuple[str, Rows]]:
    """Yield chunks of rows, each with the name of its table. Raise `StoreError` if the file is damaged or truncated.

    `place` is the name of the file in messages.
    """
    counts: dict[str, int] = {}
    name, rows = "", Rows()
    with open(path, encoding="utf-8") as file:
        lines = _lines(file, place)
        read_header(next(lines, None), place)
        for number, line in enumerate(lines, 2):
            if "end" in line:
                # Detects lines that were removed, which leave a file of valid JSON lines.
                if line["end"] != counts:
                    raise StoreError(f"{place} is damaged: it does not have the rows that its last line counts")
                if next(lines, None) is not None:
                    raise StoreError(f"{place} is damaged: something follows its last line")
                break
            table, row = line.get("table"), line.get("row")
            if not isinstance(table, str) or not isinstance(row, dict):
                raise StoreError(f"{place}, line {number}: expected a table and a row")
            if rows and (table != name or len(rows) == _ROWS_AT_ONCE):
                yield name, rows
                rows = []
            name = table
            rows.append(row)
            counts[table] = counts.get(table, 0) + 1
        else:
            raise StoreError(f"{place} is cut off: its last line is missing")
    if rows:
        yield name, rows


def _lines(file: IO[str], place: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(_LONGEST_LINE)  # limited, so that a hostile file cannot exhaust the memory
            if not line:
                return
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == 1:  # some other file
                raise not_an_export(place) from error
            raise StoreError(f"{place}, line {number}: it cannot be read as JSON: {error}") from error
        if not isinstance(value, dict):
            if number == 1:
                raise not_an_export(place)
            raise StoreError(f"{place}, line {number}: expected a map")
        yield value


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent: NaN and infinities become strings."""
    return json_value(value) if isinstance(value, float) else value
