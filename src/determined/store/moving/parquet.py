"""The Parquet format of an export: a directory with a manifest and one file for each table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from determined.errors import StoreError
from determined.optional import require
from determined.sentences import counted
from determined.store.databases.tables import Kind, Table
from determined.store.moving.format import Header, moved_tables, read_header
from determined.store.moving.reading_store import Rows

MANIFEST = "manifest.json"

# Bounds the memory: a row may hold megabytes.
_ROWS_AT_ONCE = 1_000
_LARGEST_MANIFEST = 1_000_000  # bytes; it lists only tables, and a hostile one must not exhaust the memory


class ParquetWriter:
    """Writes rows to Parquet files in a directory, one for each table, including empty tables."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._arrow = require("pyarrow", extra="parquet", purpose="an export as Parquet files")
        self._parquet = require("pyarrow.parquet", extra="parquet", purpose="an export as Parquet files")
        self._counts = dict.fromkeys(moved_tables(), 0)
        self._files = ExitStack()
        self._writers = {
            name: self._files.enter_context(
                self._parquet.ParquetWriter(directory / f"{name}.parquet", self._schema(table), compression="zstd")
            )
            for name, table in moved_tables().items()
        }

    def write(self, table: Table, rows: Rows) -> None:
        self._counts[table.name] += len(rows)
        batch = self._arrow.RecordBatch.from_pylist(rows, schema=self._schema(table))
        self._writers[table.name].write_batch(batch)

    def close(self) -> None:
        self._files.close()

    def finish(self) -> None:
        """Close the files and write the manifest, whose presence marks the export as complete."""
        self.close()
        (self._directory / MANIFEST).write_text(json.dumps({**Header().plain(), "rows": self._counts}, indent=2) + "\n")
        for path in self._directory.iterdir():  # private also after they are moved out of the private directory
            path.chmod(0o600)

    def _schema(self, table: Table) -> Any:
        """Return the Arrow schema of a table."""
        kinds: dict[Kind, Any] = {
            "flag": self._arrow.int16(),
            "integer": self._arrow.int32(),
            "long": self._arrow.int64(),
            "real": self._arrow.float64(),
            "text": self._arrow.string(),
        }
        return self._arrow.schema(
            [self._arrow.field(column.name, kinds[column.kind], column.nullable) for column in table.columns]
        )


def read_parquet(directory: Path) -> Iterator[tuple[str, Rows]]:
    """Yield chunks of rows, each with the name of its table. Raise `StoreError` if a file is damaged."""
    arrow = require("pyarrow", extra="parquet", purpose=f"reading {directory}")
    parquet = require("pyarrow.parquet", extra="parquet", purpose=f"reading {directory}")
    manifest = _manifest(directory)
    read_header(manifest, str(directory))
    counts = manifest.get("rows")
    if not isinstance(counts, dict) or not set(counts) <= set(moved_tables()):
        raise StoreError(f"{directory / MANIFEST} does not say how many rows there are of each table")
    # Only known names become part of a path; the manifest may contain any text.
    for name in (name for name in moved_tables() if name in counts):
        path, count = directory / f"{name}.parquet", 0
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                    count += batch.num_rows
                    yield name, batch.to_pylist()
        except (arrow.ArrowException, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        if count != counts[name]:
            raise StoreError(f"{path} is damaged: it has {counted(count, 'row')}, and {MANIFEST} counts {counts[name]}")


def _manifest(directory: Path) -> Any:
    """Return the contents of the manifest."""
    path = directory / MANIFEST
    try:
        with open(path, encoding="utf-8") as file:
            # At most this much is read of a file that is not trusted; a manifest has one line per table.
            return json.loads(file.read(_LARGEST_MANIFEST))
    except FileNotFoundError as error:
        raise StoreError(f"{directory} is not an export of a store: it has no {MANIFEST}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
