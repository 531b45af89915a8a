"""`OutputContext`: output files that each rank uploads independently of the other ranks (batch inference)."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.outputs import new_output_id, staged_files
from determined.config.secrets.masking import mask_secrets
from determined.core.checkpoints.output_recovery import recover
from determined.core.distributed import DistributedContext
from determined.core.ranks.agreement import in_step
from determined.core.supervision.supervisor import Supervisor
from determined.errors import DeterminedError, InvalidExperimentException, StoreError
from determined.sentences import counted
from determined.store.output_records import NewUpload, merged, rank_directory

logger = logging.getLogger("determined.core")


class OutputContext:
    """The output files of this run's trial. `begin` is a collective; after that ranks never wait for each other."""

    def __init__(self, distributed: DistributedContext, storage: CheckpointStorage, supervisor: Supervisor) -> None:
        self._distributed = distributed
        self._storage = storage
        self._supervisor = supervisor
        self._output: str | None = None
        # Uploads are published one at a time, in the order in which they are recorded.
        self._publishing = threading.Lock()
        # Uploads that replaced files, with the number of batches at that time.
        self._replacing: list[tuple[str, int]] = []

    def begin(self, batches: int, checkpoint: str | None) -> None:
        """Resume the output after `batches` batches of each rank, as restored from a checkpoint.

        Every rank calls this in step.

        Before any rank continues, the chief removes the uploads of earlier attempts that this progress does not cover.
        """
        opened = in_step(
            self._distributed.allgather,
            self._distributed.rank,
            lambda: self._begin(batches, checkpoint) if self._distributed.rank == 0 else None,
            doing="opening the output",
        )[0]
        assert opened is not None
        self._output, is_earlier = opened
        if is_earlier:
            # An earlier version used another directory; the trial's output stays together in the place where it began.
            self._storage = self._storage.earlier or self._storage

    @contextlib.contextmanager
    def upload(self, batches: Callable[[], int]) -> Iterator[Path]:
        """Yield a directory whose files are added to this rank's output when the block ends, all or none.

        `batches` is called at that time and returns how many batches of this rank have begun. A file replaces an
        earlier one of the same name.
        """
        if self._output is None:
            raise RuntimeError("the output of this run is not open: uploads are possible inside torch_batch_process")
        with self._storage.outputs.staged() as staged:
            yield staged
            files = staged_files(staged)
            if files:
                with self._publishing, _saying_not_stored(self._distributed.rank):
                    self._store(self._output, staged, files, batches())

    def covered(self, batches: int) -> None:
        """Delete replaced files that are no longer needed, because progress after `batches` batches is saved."""
        # The lock is released before files are deleted, so that an upload need not wait.
        with self._publishing:
            settled = [key for key, count in self._replacing if count <= batches]
            self._replacing = [(key, count) for key, count in self._replacing if count > batches]
        for key in settled:
            assert self._output is not None
            try:
                self._storage.outputs.delete_replaced(self._output, key)
            # Superfluous files are no reason to end the run.
            except OSError as error:
                logger.warning("files that newer uploads replaced were not removed: %s", error)

    def _begin(self, batches: int, checkpoint: str | None) -> tuple[str, bool]:
        """Return the id of the output, and whether it is in the storage location of an earlier version."""
        # Uploads belong to an attempt, so that those of an old process can be refused.
        attempt = self._supervisor.attempt()
        if checkpoint is not None:
            source = self._supervisor.store.output_of_checkpoint(checkpoint)
            if source is not None and source.trial_id != attempt.trial_id:
                logger.warning(
                    "trial %d continues from the progress of trial %d, whose uploads remain in output %s",
                    attempt.trial_id,
                    source.trial_id,
                    source.uuid,
                )
        known = self._supervisor.store.find_output(attempt.trial_id)
        if known is None:
            return new_output_id(), False
        places = [_place(storage) for storage in (self._storage, self._storage.earlier) if storage is not None]
        # Imported outputs are never changed: their files belong to another store.
        if known.storage not in places or known.borrowed:
            whose = "belongs to the store that it was imported from" if known.borrowed else f"is in {known.storage}"
            raise InvalidExperimentException(
                f"the output of trial {attempt.trial_id} {whose}, and this run would write to {places[0]}: use the "
                "same checkpoint storage, or start a new run without latest_checkpoint"
            )
        is_earlier = known.storage != places[0]
        storage = self._storage.earlier if is_earlier else self._storage
        assert storage is not None
        uploads = self._supervisor.store.uploads(attempt.trial_id)
        # Under `in_step` on the chief alone, before any rank uploads again.
        recover(storage.outputs, self._supervisor.store, known.uuid, uploads, batches)
        return known.uuid, is_earlier

    def _store(self, output: str, staged: Path, files: dict[str, int], batches: int) -> None:
        """Record the upload, move its files into place, and record that it is finished."""
        attempt = self._supervisor.attempt()
        upload = NewUpload(
            # A random key, because several uploads of a rank may have the same number of batches.
            key=uuid.uuid4().hex,
            output=output,
            storage=_place(self._storage),
            trial_id=attempt.trial_id,
            attempt=attempt.number,
            rank=self._distributed.rank,
            batches=batches,
            files=files,
            reported=time.time(),
        )
        directory = rank_directory(upload.rank)
        # Recorded before the files move: after a crash the next attempt knows which files to remove.
        self._supervisor.store.begin_upload(upload)
        try:
            replaced = self._storage.outputs.publish(output, upload.key, staged, directory, files)
            if not self._supervisor.store.finish_upload(upload.key):
                raise StoreError(f"trial {upload.trial_id} was started again, and this upload was removed")
        except BaseException:
            # Also after Ctrl-C: otherwise a part of the files would stay until the trial resumes.
            self._revert(upload)
            raise
        # The replaced files are needed until progress beyond this upload is saved: an earlier restart restores them.
        if replaced:
            self._replacing.append((upload.key, batches))
        logger.info("uploaded %s to %s/%s", counted(len(files), "file"), output, directory)

    def _revert(self, upload: NewUpload) -> None:
        """Restore the state before a failed upload. What cannot be restored now is restored when the trial resumes."""
        try:
            uploads = self._supervisor.store.uploads(upload.trial_id)
            # Only of this rank: ranks write into separate directories.
            earlier = merged(known for known in uploads if known.finished and known.rank == upload.rank)
            paths = [f"{rank_directory(upload.rank)}/{name}" for name in upload.files]
            self._storage.outputs.revert(upload.output, upload.key, paths, earlier)
            self._supervisor.store.remove_upload(upload.key)
        except (OSError, DeterminedError):
            logger.exception("a failed upload could not be removed; it is removed when the trial resumes")


def _place(storage: CheckpointStorage) -> str:
    """Return the name of a storage as it is recorded, with secrets masked."""
    place: str = mask_secrets(storage.name)
    return place


@contextlib.contextmanager
def _saying_not_stored(rank: int) -> Iterator[None]:
    """Prefix an OSError with the statement that the upload was not stored."""
    try:
        yield
    except OSError as error:
        told = f"an upload of rank {rank} was not stored: {error.strerror or error}"
        # The same type, so that the program can still tell, for example, a full disk from a missing permission.
        raise type(error)(error.errno, told, error.filename) from error
