"""Export experiments to an archive: rows, and optionally checkpoints, outputs and code; complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from determined import paths
from determined.checkpoint_storage import files as trees
from determined.checkpoint_storage import manifest
from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.durable_files import publish
from determined.errors import CheckpointNotFound, DeterminedError, InvalidCheckpointException, StoreError
from determined.experiment.checkpoints.storage_lookup import storage_of
from determined.experiment.creation.current_config import continuations
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.experiment.moving.archive import ROWS, ArchiveWriter
from determined.store.experiment_records import Experiment
from determined.store.moving.exporting import export_store
from determined.store.open import open_store
from determined.store.ranking import best_checkpoints
from determined.store.records import StoredCheckpoint
from determined.store.store import Store

Which = Literal["best", "all", "none"]


@dataclass
class ExportedExperiments:
    """The contents of a written archive, with notes for the user about missing parts."""

    path: Path
    experiments: tuple[int, ...]
    checkpoints: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def export_experiments(
    target: Path,
    experiments: Sequence[int],
    *,
    which: Which,
    code: bool,
    progress: Callable[[int], None] = lambda done: None,
) -> ExportedExperiments:
    """Write an archive; an existing file is not replaced. `progress` is called with the number of files written.

    `which` selects checkpoints: `best` are the best one of each experiment and those registered as model versions;
    `all` includes the outputs of batch inference.
    """
    # lexists, since a dangling link counts as an existing file too.
    if os.path.lexists(target):
        raise DeterminedError(f"{target} already exists: name another file with -o, or remove it")
    if not target.parent.is_dir():
        raise DeterminedError(f"{target.parent} is not a directory: name another file with -o")
    done = ExportedExperiments(target, tuple(dict.fromkeys(experiments)))
    # In the same directory, so that the link at the end stays on one file system.
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    store = open_store()
    try:
        # Beside the target, where there is space for it; /tmp may be small.
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            rows = Path(scratch) / ROWS
            # Rows first: a checkpoint that is deleted meanwhile is an
            # error here, not a row without files after the import.
            exported = export_store(rows, "jsonl", done.experiments, lambda *_: None)
            done.notes += [
                f"Experiment {id_} is running: what it does from now on is not exported" for id_ in exported.running
            ]
            # Private, since code and metrics may be confidential. O_EXCL: no other export may write the same file.
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                writer = ArchiveWriter(file, {"checkpoints_dir": str(paths.checkpoints_dir())})
                writer.add_file(ROWS, rows)
                for experiment_id in done.experiments:
                    row = store.experiments.get(experiment_id)
                    with _naming(experiment_id, done.experiments):
                        _Export(store, row, writer, done, Path(scratch), progress).write(which, code)
                writer.finish()
            _put_in_place(draft, target)
    finally:
        store.close()
        with suppress(FileNotFoundError):
            draft.unlink()
    return done


@contextmanager
def _naming(experiment_id: int, experiments: Sequence[int]) -> Iterator[None]:
    """Name the experiment in an error if several are exported; of a single one the command names it."""
    try:
        yield
    except DeterminedError as error:
        # For a single experiment the command adds its name.
        if len(experiments) == 1:
            raise
        raise DeterminedError(f"experiment {experiment_id}: {error}") from error


def _put_in_place(draft: Path, target: Path) -> None:
    """Give the finished file its name, unless another process has used that name in the meantime."""
    try:
        publish(draft, target)
    except FileExistsError:
        raise DeterminedError(f"{target} already exists: name another file with -o, or remove it") from None


@dataclass
class _Export:
    """The export of one experiment's files."""

    store: Store
    experiment: Experiment
    writer: ArchiveWriter
    done: ExportedExperiments
    scratch: Path
    progress: Callable[[int], None]
    _files: int = 0

    def write(self, which: Which, code: bool) -> None:
        """Write the chosen checkpoints, and outputs and code if they are wanted."""
        rows = self.store.experiments.checkpoints(self.experiment.id)
        for row in self._chosen(rows, which):
            self._write_checkpoint(row)
        if which == "all":
            self._write_outputs()
        if code:
            self._write_code()
        self._note_what_is_missing(rows, which)

    def _chosen(self, rows: list[StoredCheckpoint], which: Which) -> list[StoredCheckpoint]:
        """Return the checkpoints to export."""
        present = [row for row in rows if row.state != "DELETED"]
        if which == "none":
            return []
        if which == "all":
            return present
        metric = self.experiment.metric
        if metric is None and present:
            raise DeterminedError(
                "no searcher metric is recorded, so the best checkpoint is not known: use --checkpoints all"
            )
        best = best_checkpoints(present, metric, self.experiment.smaller_is_better)[:1]
        registered = self.store.registry.registered(self.experiment.id)
        return best + [row for row in present if row.checkpoint_id in registered and row not in best]

    def _write_checkpoint(self, row: StoredCheckpoint) -> None:
        """Add the files of a checkpoint after comparing them with the recorded list and the manifest."""
        storage = storage_of(self.experiment, row.storage)
        try:
            with storage.open(row.checkpoint_id) as path:
                # Compared with the row first: an archive whose files do not match its rows could not be imported.
                if trees.resources(path) != row.resources:
                    raise InvalidCheckpointException(
                        f"checkpoint {row.checkpoint_id} in {row.storage} does not have the files recorded for "
                        f"it: to record those that exist, run det checkpoint rm {row.checkpoint_id}"
                    )
                # A partially deleted checkpoint has lost files that its manifest lists.
                if manifest.exists(path) and row.state == "ACTIVE":
                    manifest.verify(path, row.checkpoint_id)
                self._write_tree(f"checkpoints/{row.checkpoint_id}", path)
        except CheckpointNotFound as error:
            # A checkpoint that was imported may have stayed on the machine where it was made.
            if not row.borrowed:
                raise CheckpointNotFound(
                    f"{error}: to record that, run det checkpoint rm {row.checkpoint_id}"
                ) from error
            self.done.notes.append(
                f"Checkpoint {row.checkpoint_id} is in {row.storage}, which is not here: it is not exported"
            )
        else:
            self.done.checkpoints.append(row.checkpoint_id)

    def _write_outputs(self) -> None:
        """Write the outputs that have files."""
        for output in self.store.outputs.of_experiment(self.experiment.id):
            if not output.uploads:
                continue
            copy = self.scratch / output.uuid
            storage = storage_of(self.experiment, output.storage)
            storage.outputs.fetch(output.uuid, output.resources, copy, output.replaced_by)
            self._write_tree(f"outputs/{output.uuid}", copy)
            self.done.outputs.append(output.uuid)

    def _write_code(self) -> None:
        """Write the code of a search and its configurations without secrets, or the code of each standalone attempt."""
        if self.experiment.is_standalone:
            for directory in self.store.upkeep.run_directories(self.experiment.id):
                path = Path(directory.path)
                if (path / "code").is_dir():
                    self._write_tree(f"runs/{path.name}/code", path / "code")
                    self.done.code.append(self.experiment.id)
            return
        root = experiment_dir(self.experiment.key)
        if root is None or not root.is_dir():
            raise DeterminedError("its code is not on this machine: export it without --code")
        files, below = ExperimentFiles(root), f"experiments/{self.experiment.key}"
        journal = self.store.experiments.journal(self.experiment.id)
        for number in (None, *continuations(journal)):
            name = "config.json" if number is None else f"config-{number}.json"
            # Secrets do not leave the machine; the import says which have to be set again.
            self.writer.add_json(f"{below}/{name}", mask_secrets(files.read_config(number)))
        self._write_tree(f"{below}/code", files.code)
        self.done.code.append(self.experiment.id)

    def _write_tree(self, name: str, root: Path) -> None:
        """Write a directory and everything below it."""
        self.writer.add_directory(name)
        for path, is_directory in trees.walk(root):
            if is_directory:
                self.writer.add_directory(f"{name}/{path}")
            elif (root / path).is_file():  # the user may have put a socket or pipe there
                try:
                    self.writer.add_file(f"{name}/{path}", root / path)
                except FileNotFoundError as error:
                    raise StoreError(f"{root / path} was removed while it was exported: try again") from error
            self._files += 1
            self.progress(self._files)

    def _note_what_is_missing(self, rows: list[StoredCheckpoint], which: Which) -> None:
        """Add notes for the user about parts that are not exported but needed to continue elsewhere."""
        experiment = self.experiment
        if not experiment.is_standalone and experiment.state in ("ACTIVE", "PAUSED") and which != "all":
            self.done.notes.append(
                f"Experiment {experiment.id} has not ended: to activate it elsewhere, use --checkpoints all --code"
            )
        source = StoredConfig(experiment.config).searcher.source_checkpoint_uuid
        if isinstance(source, str) and source not in {row.checkpoint_id for row in rows}:
            found = self.store.upkeep.checkpoint(source)
            owner = self.store.experiments.trial(found.trial_id).experiment_id
            if owner not in self.done.experiments:
                self.done.notes.append(
                    f"Experiment {experiment.id} starts from checkpoint {source} of experiment {owner}, which is not "
                    "exported: export both to start more trials elsewhere"
                )
