"""Exports experiments of a store into files. The export appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from determined.durable_files import publish
from determined.errors import StoreError
from determined.store.databases.snapshot import consistent_snapshot
from determined.store.databases.tables import Table
from determined.store.maintenance.active_experiments import running_experiments
from determined.store.moving.format import moved_tables
from determined.store.moving.json_lines import JsonLinesWriter
from determined.store.moving.reading_store import Rows, Source
from determined.store.open import opened_database

Format = Literal["jsonl", "parquet"]
Progress = Callable[[int, int], None]
"""Called with the number of rows done and the total."""


@dataclass(frozen=True)
class Exported:
    """The result of an export. `running` are exported experiments that still run: their later rows are not included."""

    path: Path
    rows: dict[str, int]
    running: tuple[int, ...]


class _Writer(Protocol):
    """A writer of one export format."""

    def write(self, table: Table, rows: Rows) -> None: ...

    def finish(self) -> None:
        """Write the end of the export, which marks it as complete."""
        ...

    def close(self) -> None: ...


def export_store(target: Path, form: Format, experiments: Sequence[int] | None, progress: Progress) -> Exported:
    """Export experiments into a file of JSON lines or a directory of Parquet files; by default all experiments."""
    # A dangling link counts as existing, because writing to it would create a file elsewhere.
    if target.is_symlink() or (target.exists() and not (form == "parquet" and _is_empty_directory(target))):
        raise StoreError(f"{target} already exists: name another place, or remove it")
    if not target.parent.is_dir():
        raise StoreError(f"{target.parent} is not a directory: name another place")
    # Hidden and in the same directory, so that the rename below is atomic and not a copy between file systems.
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    # The snapshot is taken before experiments are looked up, so that the counts match the rows that follow.
    with opened_database() as database, consistent_snapshot(database):
        source = Source(database, experiments)
        try:
            if form == "jsonl":
                # O_EXCL: a file that another process has just created under this name is not overwritten.
                file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(file, "w", encoding="utf-8") as opened:
                    rows = _write(source, JsonLinesWriter(opened), progress)
            else:
                # Imported here because pyarrow is an optional dependency.
                from determined.store.moving.parquet import ParquetWriter

                draft.mkdir(mode=0o700)
                rows = _write(source, ParquetWriter(draft), progress)
            publish(draft, target)  # only now: an export that is interrupted leaves no incomplete target
        # Another process created the target since the check above.
        except FileExistsError as error:
            raise StoreError(f"{target} already exists: name another place, or remove it") from error
        finally:
            # After the rename neither call finds anything.
            shutil.rmtree(draft, ignore_errors=True)
            with suppress(FileNotFoundError, IsADirectoryError):
                draft.unlink()
        running = [id_ for id_ in running_experiments(database) if experiments is None or id_ in experiments]
        return Exported(target, rows, tuple(running))


def _write(source: Source, writer: _Writer, progress: Progress) -> dict[str, int]:
    """Write the rows of all tables and return their numbers by table."""
    counts = {name: source.count(table) for name, table in moved_tables().items()}
    done, total = 0, sum(counts.values())
    try:
        for table in moved_tables().values():
            for rows in source.rows(table):
                writer.write(table, rows)
                done += len(rows)
                progress(done, total)
        writer.finish()
    finally:
        writer.close()
    return counts


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
