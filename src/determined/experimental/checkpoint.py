"""`Checkpoint`: read, download, load, annotate and delete a checkpoint."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined.config.flattening import flat
from determined.errors import CheckpointNotFound, CheckpointStateException
from determined.experimental import metrics
from determined.experimental.enums import CheckpointState, DownloadMode
from determined.experimental.metrics import TrialMetrics
from determined.experimental.old_names import warn_renamed
from determined.experimental.results.html_tables import Cells, joined, table_of_one
from determined.experimental.session import Session, utc_datetime

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage
    from determined.store import experiment_records, records
    from determined.store.store import Store

logger = logging.getLogger("determined.experimental")


@dataclass(frozen=True)
class CheckpointTrainingMetadata:
    """The training that a checkpoint comes from; `validation_metrics` is {"avgMetrics": {...}}."""

    experiment_config: dict[str, Any]
    experiment_id: int
    trial_id: int
    hparams: dict[str, Any]
    validation_metrics: dict[str, Any]


class _OldValidation(dict[str, Any]):
    """Validation metrics by name, also readable in the nested form of older releases."""

    def __missing__(self, name: str) -> dict[str, Any]:
        if name == "metrics" and self:
            # The two nestings of releases 0.12 to 0.17.
            return {"validationMetrics": dict(self), "avgMetrics": dict(self)}
        raise KeyError(name)


class Checkpoint:
    """A checkpoint of a trial. Attributes have the values of the last read; `reload()` reads them again."""

    def __init__(
        self,
        session: Session,
        row: records.StoredCheckpoint,
        trial: experiment_records.Trial,
        experiment: experiment_records.Experiment,
    ) -> None:
        self._session = session
        self._row = row
        self._trial = trial
        self._experiment = experiment

    def __repr__(self) -> str:
        return f"Checkpoint(uuid={self.uuid!r}, trial_id={self._row.trial_id}, state={self.state.value})"

    def _repr_html_(self) -> str:
        return table_of_one(self)

    def _cells(self) -> Cells:
        own = {
            "UUID": self.uuid,
            "Experiment": self._experiment.id,
            "Trial": self._row.trial_id,
            "State": self.state.value,
            "Steps": self._steps_completed,
            "Bytes": sum(self.resources.values()),
            "Reported": self.report_time,
        }
        return joined(own, self._validation)

    def _settings(self) -> Cells:
        return flat(self._trial.effective_hparams)

    @property
    def uuid(self) -> str:
        """The id of the checkpoint, which is also the name of its directory."""
        return self._row.checkpoint_id

    @property
    def task_id(self) -> str:
        """The task id of the trial that saved the checkpoint."""
        return f"{self._experiment.id}.{self._trial.request_id}"

    @property
    def allocation_id(self) -> str:
        """The allocation (start of the trial) that saved the checkpoint."""
        return self._trial.allocation

    @property
    def report_time(self) -> datetime | None:
        """When the checkpoint was recorded."""
        return utc_datetime(self._row.reported)

    @property
    def resources(self) -> dict[str, int]:
        """The size in bytes of each file by relative path; directories end in a slash."""
        return self._row.resources

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata stored with the checkpoint, including later changes."""
        return self._row.metadata

    @property
    def state(self) -> CheckpointState:
        """Whether the files of the checkpoint exist: completely, partially or not at all."""
        return CheckpointState(self._row.shown_state)

    @property
    def training(self) -> CheckpointTrainingMetadata:
        """The origin of the checkpoint: experiment, trial, hyperparameters and validation metrics."""
        return CheckpointTrainingMetadata(
            self._experiment.config,
            self._experiment.id,
            self._row.trial_id,
            self._trial.effective_hparams,
            {"avgMetrics": self._validation},
        )

    @property
    def trial_id(self) -> int:
        """The id of the trial that saved the checkpoint (deprecated name of releases 0.12 to 0.17)."""
        warn_renamed("Checkpoint.trial_id", "Checkpoint.training.trial_id")
        return self._row.trial_id

    @property
    def experiment_config(self) -> dict[str, Any]:
        """The configuration of the checkpoint's experiment (deprecated name of releases 0.12 to 0.17)."""
        warn_renamed("Checkpoint.experiment_config", "Checkpoint.training.experiment_config")
        return self._experiment.config

    @property
    def batch_number(self) -> int:
        """The number of batches trained before the checkpoint was saved (deprecated name of releases 0.12 to 0.17)."""
        warn_renamed("Checkpoint.batch_number", 'Checkpoint.metadata["steps_completed"]')
        return self._steps_completed

    @property
    def validation(self) -> dict[str, Any]:
        """The validation metrics at the checkpoint's step (deprecated name of releases 0.12 to 0.17).

        They can also be read as `["metrics"]["validationMetrics"]`.
        """
        warn_renamed("Checkpoint.validation", "Checkpoint.training.validation_metrics")
        return _OldValidation(self._validation)

    def reload(self) -> None:
        """Read the checkpoint's record from the store again."""
        self._row = self._session.read(lambda store: store.upkeep.checkpoint(self.uuid))

    def download(self, path: str | os.PathLike[str] | None = None, mode: DownloadMode = DownloadMode.AUTO) -> str:
        """Copy the files to a directory (default: `checkpoints/<uuid>`) and return its path.

        Files are fetched under a temporary name and moved in one step. A directory that already holds this checkpoint
        is kept; one that holds anything else raises FileExistsError.
        """
        # Imported on use, like the others below: most programs only read.
        from determined.experiment.checkpoints.download import download_checkpoint

        if not isinstance(mode, DownloadMode):
            raise TypeError(f"mode must be a DownloadMode, got {mode!r}")
        # Read again, because a clean-up may have deleted it since this object was made.
        self._refuse_deleted()
        target = Path("checkpoints", self.uuid) if path is None else Path(path)
        try:
            download_checkpoint(self._storage(), self.uuid, target, self._row.resources)
        except (FileNotFoundError, CheckpointNotFound):
            self._refuse_deleted()  # a clean-up may have deleted it in the meantime
            raise
        return str(target)

    def load(
        self,
        path: str | os.PathLike[str] | None = None,
        trial_class: Any = None,
        trial_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Download the checkpoint and return its trial with the saved weights."""
        return Checkpoint.load_from_path(self.download(path), trial_class, trial_kwargs, torch_load_kwargs, **kwargs)

    @staticmethod
    def load_from_path(
        path: str | os.PathLike[str],
        trial_class: Any = None,
        trial_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the trial of a downloaded checkpoint: `determined.pytorch.load_trial_from_checkpoint_path`."""
        from determined.pytorch.checkpoint.load_trial import load_trial_from_checkpoint_path

        return load_trial_from_checkpoint_path(path, trial_class, trial_kwargs, torch_load_kwargs, **kwargs)

    def add_metadata(self, metadata: dict[str, Any]) -> None:
        """Add to the metadata, in the store and in the checkpoint's file; existing keys get the new value."""
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata must be a dict, got {metadata!r}")
        self._change_metadata({**self._fresh_metadata(), **metadata})

    def remove_metadata(self, keys: Sequence[str]) -> None:
        """Remove keys from the metadata, in the store and in the checkpoint's file; unknown keys are ignored."""
        # A single text would otherwise be taken as a list of its letters.
        removed = [keys] if isinstance(keys, str) else list(keys)
        self._change_metadata({key: value for key, value in self._fresh_metadata().items() if key not in removed})

    def write_metadata_file(self, path: str | os.PathLike[str]) -> None:
        """Write the metadata to a JSON file."""
        Path(path).write_text(json.dumps(self.metadata, indent=2))

    def get_metrics(self, group: str | None = None) -> Iterator[TrialMetrics]:
        """Yield the metrics of runs that use this checkpoint, such as evaluations, run by run and by step."""
        users = self._session.read(lambda store: store.lineage.users_of_checkpoint(self.uuid))
        return metrics.iter_metrics(self._session, users, group)

    def delete(self) -> None:
        """Delete the files; the record is kept with state DELETED. Raises CheckpointInUse if registered or in use."""
        from determined.experiment.deletion import delete_checkpoints

        # A write is not retried: the files may be deleted already when the connection breaks.
        self._session.write(lambda store: delete_checkpoints(store, [self.uuid]))
        self.reload()

    def remove_files(self, globs: Sequence[str]) -> None:
        """Delete the files that match one of the patterns (`*.bin`, `code/**`); the state becomes PARTIALLY_DELETED.

        Without patterns only the recorded file list is refreshed. Raises CheckpointInUse if registered or in use.
        """
        from pathspec import GitIgnoreSpec

        from determined.experiment.deletion import delete_checkpoint_files

        unwanted = GitIgnoreSpec.from_lines([globs] if isinstance(globs, str) else globs).match_file
        self._row = self._session.write(lambda store: delete_checkpoint_files(store, self.uuid, unwanted))

    @property
    def _validation(self) -> dict[str, Any]:
        return self._row.validation or {}

    @property
    def _steps_completed(self) -> int:
        return self._row.steps_completed

    def _refuse_deleted(self) -> None:
        """Raise CheckpointStateException if the files were deleted."""
        self.reload()
        if self.state not in (CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED):
            raise CheckpointStateException(f"checkpoint {self.uuid} cannot be downloaded: it is {self.state.value}")

    def _storage(self) -> CheckpointStorage:
        """Return the storage that contains the files."""
        from determined.experiment.checkpoints.storage_lookup import storage_of

        return storage_of(self._experiment, self._row.storage)

    def _fresh_metadata(self) -> dict[str, Any]:
        """Return the metadata as stored now, so that a change does not undo one that another process made."""
        self.reload()
        return self._row.metadata

    def _change_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata in the store and in the checkpoint's file."""
        from determined.experiment.checkpoints.metadata import rewrite_metadata

        def change(store: Store) -> records.StoredCheckpoint:
            return rewrite_metadata(store, self._row, self._storage(), metadata)

        self._row = self._session.write(change)
