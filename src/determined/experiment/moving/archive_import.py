"""Import experiments from an archive: rows, checkpoints, outputs and code, all of them or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from determined import paths
from determined.checkpoint_storage.directory import DirectoryStorage
from determined.errors import StoreError
from determined.experiment.moving.imported_files_placement import ImportedFilesPlacement, known_experiment_error
from determined.experiment.moving.interrupted import remove_interrupted
from determined.experiment.moving.missing_files import MissingFiles
from determined.experiment.moving.unpacking import unpack
from determined.store.moving.importing import Imported, import_store
from determined.store.moving.json_lines import read_json_lines
from determined.store.moving.path_map import PathMap
from determined.store.open import opened_database


@dataclass(frozen=True)
class ImportedExperiments:
    """The result of an import; `masked` are settings whose secrets the exporting machine did not write."""

    imported: Imported
    storage: str
    checkpoints: int
    outputs: int
    without_code: tuple[int, ...]
    masked: tuple[str, ...]
    missing: tuple[MissingFiles, ...]


def import_experiments(
    source: Path,
    progress: Callable[[int], None],
    *,
    storage: Path | None = None,
    mapping: PathMap,
    take_over: bool = False,
    skip_existing: bool = False,
) -> ImportedExperiments:
    """Import an archive into the current store. Checkpoints are copied to `storage` and belong to this store.

    An experiment that is already in the store is an error, or with `skip_existing` left unchanged.
    """
    target = DirectoryStorage(paths.checkpoints_dir() if storage is None else storage)
    target.probe()
    # Files of an import that was killed may occupy the ids of this one.
    remove_interrupted()
    # Unpacked files are as large as the archive, which is not compressed.
    needed, free = source.stat().st_size, shutil.disk_usage(target.root).free
    if needed > free:
        raise StoreError(
            f"{source} needs {needed:,} bytes in {target.root}, and {free:,} are free: nothing was imported"
        )

    def check_rows(rows: Path) -> None:
        """Raise StoreError if an experiment is already in the store, unless such experiments are skipped."""
        if not skip_existing:
            _refuse_known(rows, str(source))

    # On the file system of the storage, so that moving files into place is a rename.
    with target.outputs.staged() as scratch:
        private = paths.in_data_dir(target.root)
        unpacked = unpack(source, scratch, private=private, on_rows=check_rows, progress=progress)
        placing = ImportedFilesPlacement(str(source), unpacked, target, mapping, relocates=storage is not None)
        try:
            done = import_store(
                unpacked.rows,
                progress,
                take_over=take_over,
                change=placing.change,
                # Files are in place before the rows are committed: a row must never refer to missing files.
                finish=lambda moved: placing.publish(moved, skip_existing=skip_existing),
                called=str(source),
            )
        # BaseException: also after Ctrl-C nothing of the import may be left.
        except BaseException:
            placing.roll_back()
            raise
        placing.finish()
        return ImportedExperiments(
            done,
            target.name,
            len(placing.checkpoints),
            len(placing.outputs),
            tuple(each.here for each in done.experiments if each.here in placing.without_code),
            tuple(placing.masked),
            tuple(placing.files.missing()),
        )


def _refuse_known(rows: Path, place: str) -> None:
    """Raise StoreError, before anything large is unpacked, if an experiment is already in the store."""
    with opened_database() as database:
        for table, found in read_json_lines(rows, place):
            if table != "experiments":
                # Experiments come first in an export, so that the rest need not be read.
                return
            for row in found:
                known = database.execute("SELECT id FROM experiments WHERE key = ?", [str(row.get("key"))])
                if known:
                    raise known_experiment_error(place, row.get("name"), known[0][0])
