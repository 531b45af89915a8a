"""Stores checkpoints of one rank: stage the files, make them visible, record the checkpoint, delete old ones."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from determined.checkpoint_storage import files
from determined.checkpoint_storage.base import CheckpointStorage, Resources
from determined.checkpoint_storage.unrecorded import examine
from determined.config.secrets.masking import mask_secrets
from determined.core.checkpoints.cleanup import Retention, clean_up
from determined.core.checkpoints.contents import checked_metadata, write_descriptions
from determined.core.checkpoints.forked_work import fork
from determined.core.checkpoints.upload import CheckpointUpload, saying_not_saved
from determined.core.supervision.checkpoint_records import CheckpointRecords
from determined.core.supervision.reports import CheckpointRecord
from determined.errors import DeterminedError
from determined.store.workers.unrecorded import recover_unrecorded

logger = logging.getLogger("determined.core")


class CheckpointSaver:
    """Writes the files of checkpoints to the storage and their records to the store.

    The order of these steps is such that the process may be killed at any point.
    """

    def __init__(
        self, storage: CheckpointStorage, records: CheckpointRecords, keep: Retention | None, code: Path | None
    ) -> None:
        self._storage = storage
        self._records = records
        self._keep = keep
        self._code = code
        self._has_looked_for_unrecorded = False
        self.log_level = logging.INFO  # of the line about each stored checkpoint

    @contextlib.contextmanager
    def staged(self, metadata: dict[str, Any] | None, with_manifest: bool = False) -> Iterator[tuple[Path, str]]:
        """Yield a staging directory and a new id; store it at the end of the block, or discard it on failure."""
        # Before the block runs, so that a program does not write gigabytes for metadata that is refused.
        checked_metadata(metadata)
        # A random id: it is never used again, not even after the checkpoint is deleted.
        checkpoint_id = str(uuid.uuid4())
        try:
            with saying_not_saved(checkpoint_id):
                path = self._storage.stage(checkpoint_id)
            yield path, checkpoint_id
            # Checked again, because the program may have changed the metadata inside the block.
            self.finish(checkpoint_id, checked_metadata(metadata), with_manifest)
        # BaseException, so that Ctrl-C and SystemExit leave no incomplete files either.
        except BaseException:
            self._storage.abandon(checkpoint_id)
            raise

    def begin(self, write: Callable[[Path], Mapping[str, str]], metadata: dict[str, Any]) -> CheckpointUpload:
        """Start to store a checkpoint in the background; see `CheckpointContext._begin_storing`."""
        checked = checked_metadata(metadata)
        checkpoint_id = str(uuid.uuid4())
        # Queried before the fork, because the child must not use the store.
        origin = self._records.origin()
        with saying_not_saved(checkpoint_id):
            staged = self._storage.stage(checkpoint_id)

        def write_files() -> None:
            write_descriptions(staged, checked, origin, write(staged))
            # In the child as well: syncing gigabytes takes as long as writing them.
            files.sync_tree(staged, self._code)

        try:
            return CheckpointUpload(
                checkpoint_id,
                checked["steps_completed"],
                fork(write_files),
                commit=lambda: self._commit(checkpoint_id),
                announce=lambda resources: self._announce(checkpoint_id, checked, resources),
                abandon=lambda: self._storage.abandon(checkpoint_id),
            )
        # The process could not be forked, or the thread not started.
        except BaseException:
            self._storage.abandon(checkpoint_id)
            raise

    def finish(self, checkpoint_id: str, metadata: dict[str, Any], with_manifest: bool = False) -> None:
        """Write the descriptions of a staged checkpoint, commit it and record it."""
        origin = self._records.origin() if with_manifest else None
        with saying_not_saved(checkpoint_id):
            write_descriptions(self._storage.staged(checkpoint_id), metadata, origin)
            resources = self._commit(checkpoint_id)
        # Recorded after it is visible, so that every recorded checkpoint can be loaded.
        self._announce(checkpoint_id, metadata, resources)

    def record_published(self) -> None:
        """Record checkpoints in this storage whose processes were killed before they could record them.

        For the chief only.
        """
        self._has_looked_for_unrecorded = True
        # Storages of earlier versions are searched too, because a run that they interrupted may be resumed now.
        for storage in (self._storage, self._storage.earlier):
            if storage is None:
                continue
            try:
                recover_unrecorded(self._records.store, mask_secrets(storage.name), partial(examine, storage))
            # An unreachable storage must not prevent training from starting; a later start looks again.
            except OSError as error:
                logger.warning("unrecorded checkpoints could not be examined: %s", error)

    def _commit(self, checkpoint_id: str) -> Resources:
        """Make a checkpoint visible, after a note in the store.

        With that note the checkpoint can be recorded even if this process is killed between the two steps.
        """
        if not self._has_looked_for_unrecorded:  # a program of the Core API does not say when its attempt begins
            self.record_published()
        self._records.publish(checkpoint_id)
        return self._storage.commit(checkpoint_id, self._code)

    def _announce(self, checkpoint_id: str, metadata: dict[str, Any], resources: Resources) -> None:
        """Record a stored checkpoint, log it, and delete checkpoints that the retention policy does not keep."""
        try:
            self._records.report(CheckpointRecord(checkpoint_id, metadata["steps_completed"], metadata, resources))
        except DeterminedError as error:
            # The files exist, so the message must not say that nothing was saved.
            raise type(error)(f"checkpoint {checkpoint_id} is stored, but it could not be recorded: {error}") from error
        logger.log(self.log_level, "stored checkpoint %s", checkpoint_id)
        if self._keep is not None:
            clean_up(self._storage, self._records, self._keep)
