"""Adapt the rows of an imported archive to this machine, and move their files into place before the commit."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from determined import paths
from determined.checkpoint_storage import files as trees
from determined.checkpoint_storage.directory import DirectoryStorage
from determined.config.secrets.masked_settings import masked_settings
from determined.config.storage_directory import directory_of, with_directory
from determined.config.stored import StoredConfig
from determined.errors import CheckpointNotFound, StoreError
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.experiment.moving.archive import parsed_json
from determined.experiment.moving.interrupted import ImportNote
from determined.experiment.moving.missing_files import ImportedFiles
from determined.experiment.moving.unpacking import Unpacked
from determined.names import named_entry
from determined.store.databases.column_checks import configuration_mistake
from determined.store.moving.importing import Moved
from determined.store.moving.path_map import PathMap
from determined.store.open import opened_database
from determined.store.output_records import rank_directory


def known_experiment_error(place: str, name: object, here: int) -> StoreError:
    """Return the error for an experiment that the store already contains."""
    return StoreError(
        f"{place}: experiment {name!r} is already in this store, as experiment {here}; nothing was imported "
        "(--skip-existing imports the others)"
    )


@dataclass
class ImportedFilesPlacement:
    """Adapts the imported rows to this machine, and moves their files into place before the rows are committed."""

    place: str
    unpacked: Unpacked
    storage: DirectoryStorage
    mapping: PathMap
    relocates: bool  # whether new checkpoints go to the storage in any case
    checkpoints: dict[str, dict[str, Any]] = field(default_factory=dict)  # new rows with files in the archive, by id
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)
    without_code: set[int] = field(default_factory=set)
    files: ImportedFiles = field(default_factory=ImportedFiles)
    _note: ImportNote | None = None
    _undo: ExitStack = field(default_factory=ExitStack)
    _new: list[str] = field(default_factory=list)  # keys of new experiments
    _keys: set[str] = field(default_factory=set)
    _runs: dict[str, Path] = field(default_factory=dict)  # name in the archive to local directory
    _uploads: dict[int, dict[str, int]] = field(default_factory=dict)  # by trial: files of finished uploads
    _output_of: dict[int, str] = field(default_factory=dict)

    def change(self, table: str, row: dict[str, Any]) -> None:
        """Replace paths of the exporting machine in a new row."""
        self.mapping.change(table, row)
        if table == "experiments":
            self._change_experiment(row)
        elif table == "attempts":
            self._change_attempt(row)
        elif table == "checkpoints" and row["uuid"] in self.unpacked.checkpoints:
            self._check_files("checkpoints", row["uuid"], json.loads(row["resources"]))
            self._place(row)
            self.checkpoints[row["uuid"]] = row
        elif table == "outputs" and row["uuid"] in self.unpacked.outputs:
            self._place(row)
            self.outputs[row["uuid"]] = row
            self._output_of[row["trial_id"]] = row["uuid"]
        elif table == "uploads" and row["finished"]:
            below = rank_directory(row["rank"])
            files = {f"{below}/{name}": size for name, size in json.loads(row["files"]).items()}
            self._uploads.setdefault(row["trial_id"], {}).update(files)
        self.files.note(table, row)

    def publish(self, moved: Sequence[Moved], *, skip_existing: bool) -> None:
        """Move all files into place; `roll_back` moves them back if the rows are not committed."""
        for each in moved:
            if not each.new and not skip_existing:
                raise known_experiment_error(self.place, each.name, each.here)
        everything_is_new = all(each.new for each in moved)
        self._refuse_unlisted_files(everything_is_new=everything_is_new)
        self.mapping.refuse_unused(self.place)
        # Written before the first file is moved, so that a kill at any later moment can be undone.
        self._note = ImportNote(self._new[0], self._directories()) if self._new else None
        for checkpoint_id in self.checkpoints:
            self._publish_checkpoint(checkpoint_id)
        for trial_id, output in self._output_of.items():
            self._check_files("outputs", output, self._uploads.get(trial_id, {}), with_directories=False)
            self._publish_output(output)
        for key in sorted(self._keys):
            self._publish_directory(self.unpacked.root / "experiments" / key, ExperimentFiles.for_key, key)
        for name, target in self._runs.items():
            paths.made_private(paths.runs_dir())
            self._undo.callback(shutil.rmtree, target, ignore_errors=True)
            _move(self.unpacked.root / "runs" / name, target)

    def roll_back(self) -> None:
        """Delete what was published, unless the rows were committed after all, as with a late interrupt."""
        if self._new:
            # The transaction may have been committed although the client was interrupted.
            with opened_database() as database:
                if database.execute("SELECT 1 FROM experiments WHERE key = ?", [self._new[0]]):
                    self.finish()
                    return
        self._undo.close()
        self.finish()

    def finish(self) -> None:
        """Delete the note that an import is in progress."""
        if self._note is not None:
            self._note.remove()
            self._note = None

    def _directories(self) -> list[Path]:
        """Return all directories that this import is about to create."""
        own = [row["uuid"] for row in (*self.checkpoints.values(), *self.outputs.values()) if not row["borrowed"]]
        experiments = [paths.experiments_dir() / key for key in self._keys]
        return [*(self.storage.root / name for name in own), *experiments, *self._runs.values()]

    def _place(self, row: dict[str, Any]) -> None:
        """Set the local storage in a row.

        If the files exist already, they may belong to another store: the row is borrowed.
        """
        # lexists, since a dangling link is in the way as well.
        is_there = os.path.lexists(self.storage.root / row["uuid"])
        row.update(storage=self.storage.name, borrowed=1 if is_there else 0)

    def _change_experiment(self, row: dict[str, Any]) -> None:
        """Adapt the row of an experiment, and its configurations if the archive has its code."""
        key = row["key"]
        self._new.append(key)
        if row["by_hand"]:
            row["borrowed"] = 0  # its attempts name only their own copied directories
            return
        row["config"] = json.dumps(self._with_storage(json.loads(row["config"])))
        if key in self.unpacked.experiments:
            directory = experiment_dir(key)
            assert directory is not None, "keys were checked"
            row["code_dir"] = str(ExperimentFiles(directory).code)
            if not directory.exists():
                row["borrowed"] = 0
                self._keys.add(key)
                self._prepare_configs(key)
        else:
            self.without_code.add(row["id"])

    def _with_storage(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration whose checkpoints go to the local storage.

        Trials look for checkpoints in the configured storage, so it must be the one to which they are copied. The data
        directory of the exporting machine does not exist here.
        """
        known = StoredConfig(config).checkpoint_storage.plain
        directory = directory_of(known)
        is_default = directory is not None and directory == self.unpacked.default_storage
        if not (self.unpacked.checkpoints or self.relocates or is_default):
            return config
        return {**config, "checkpoint_storage": with_directory(known, str(self.storage.root))}

    def _prepare_configs(self, key: str) -> None:
        """Rewrite the unpacked configurations of an experiment for this machine."""
        root = self.unpacked.root / "experiments" / key
        for path in sorted(root.glob("config*.json")):
            where = f"{self.place}: experiments/{key}/{path.name}"
            config = parsed_json(path.read_bytes(), where)
            wrong = configuration_mistake(json.dumps(config))
            if wrong is not None:
                raise StoreError(f"{where} {wrong}; nothing was imported")
            config = self._with_storage(self.mapping.config(config))
            self.masked += [name for name in masked_settings(config).names if name not in self.masked]
            path.write_text(json.dumps(config, indent=2))
        if not (root / "config.json").is_file() or not (root / "code").is_dir():
            raise StoreError(f"{self.place}: experiments/{key} lacks its code or config.json; nothing was imported")

    def _change_attempt(self, row: dict[str, Any]) -> None:
        """Set the run directory of an attempt: the copied one, never another directory of this machine."""
        name = Path(row["run_dir"]).name
        if name in self.unpacked.runs:
            target = named_entry(paths.runs_dir(), name)
            # The name may be taken by a run of this machine.
            if target is None or os.path.lexists(target):
                target = _unused_run_dir()
            self._runs[name] = target
            row.update(run_dir=str(target), host=socket.gethostname())
        # A path of the exporting machine can exist here and belong to another run.
        elif paths.in_data_dir(Path(row["run_dir"])):
            row["run_dir"] = str(_unused_run_dir())

    def _check_files(self, kind: str, name: str, wanted: dict[str, int], *, with_directories: bool = True) -> None:
        """Raise StoreError if unpacked files differ from those recorded in the row."""
        root = self.unpacked.root / kind / name
        found = trees.resources(root)
        if not with_directories:
            # The list of uploaded files has no directories.
            found = {path: size for path, size in found.items() if not path.endswith("/")}
        if found != wanted:
            other = sorted(found.items() ^ wanted.items())[0][0]
            raise StoreError(
                f"{self.place} is damaged, and nothing was imported: {kind}/{name}/{other} does not match its row"
            )

    def _refuse_unlisted_files(self, *, everything_is_new: bool) -> None:
        """Raise StoreError for files without a row.

        Those of skipped experiments are allowed: their rows are not imported.
        """
        parts = {
            "checkpoints": self.unpacked.checkpoints - self.checkpoints.keys(),
            "outputs": self.unpacked.outputs - self.outputs.keys(),
            "runs": self.unpacked.runs - self._runs.keys(),
        }
        for kind, names in parts.items():
            if names and everything_is_new:
                raise StoreError(
                    f"{self.place} is damaged, and nothing was imported: no row names {kind}/{sorted(names)[0]}"
                )

    def _publish_checkpoint(self, checkpoint_id: str) -> None:
        """Move a checkpoint to the storage; one that exists there already must have the same content."""
        source = self.unpacked.root / "checkpoints" / checkpoint_id
        if self.checkpoints[checkpoint_id]["borrowed"]:
            if _differs(source, self.storage.root / checkpoint_id):
                raise StoreError(
                    f"{self.place}: {self.storage.root / checkpoint_id} already exists with another content; nothing "
                    "was imported (--storage names another directory)"
                )
            return
        staged = self.storage.stage(checkpoint_id)
        # Registered before the first rename, so that a failure halfway is undone.
        self._undo.callback(self._roll_back_checkpoint, checkpoint_id)
        for entry in os.listdir(source):
            os.rename(source / entry, staged / entry)
        self.storage.commit(checkpoint_id)

    def _roll_back_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint after a failure of the import, whether or not it was published already."""
        self.storage.abandon(checkpoint_id)
        # It was not published if the failure came before `commit`.
        with suppress(CheckpointNotFound):
            self.storage.delete(checkpoint_id)

    def _publish_output(self, output: str) -> None:
        """Publish the files of an output, unless they belong to another store."""
        if self.outputs[output]["borrowed"]:
            return
        root = self.unpacked.root / "outputs" / output
        self._undo.callback(self.storage.outputs.delete, output)
        for below in sorted(os.listdir(root)):
            names = [name for name, is_directory in trees.walk(root / below) if not is_directory]
            self.storage.outputs.publish(output, secrets.token_hex(16), root / below, below, names)

    def _publish_directory(self, source: Path, make: Callable[[str], ExperimentFiles], key: str) -> None:
        """Move the files of an experiment or a run to their place, and sync them."""
        target = make(key).root
        self._undo.callback(shutil.rmtree, target, ignore_errors=True)
        for entry in os.listdir(source):
            _move(source / entry, target / entry)
        # The row is committed after this, so the files must survive a power loss first.
        trees.sync_tree(target)


def _differs(one: Path, other: Path) -> bool:
    """Return whether two directories have different files or contents."""
    if trees.resources(one) != trees.resources(other):
        return True
    names = [name for name, is_directory in trees.walk(one) if not is_directory]
    return any(_content(one / name) != _content(other / name) for name in names)


def _content(path: Path) -> str:
    """Return the SHA-256 of a file."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unused_run_dir() -> Path:
    """Return a run directory for an imported attempt, which no other run uses."""
    return paths.runs_dir() / f"imported-{secrets.token_hex(8)}"


def _move(source: Path, target: Path) -> None:
    """Move a file or directory, also to another file system."""
    shutil.move(source, target)
