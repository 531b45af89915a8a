"""`CheckpointContext`: store, read and delete checkpoints, by one rank or by all ranks together."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from determined.checkpoint_storage.base import CheckpointStorage, Selector
from determined.core.checkpoints.cleanup import Retention
from determined.core.checkpoints.contents import checked_directory, copy_files, selected_files
from determined.core.checkpoints.reader import CheckpointReader
from determined.core.checkpoints.saver import CheckpointSaver
from determined.core.checkpoints.sharded import ShardedSaver
from determined.core.checkpoints.upload import CheckpointUpload, saying_not_saved
from determined.core.distributed import DistributedContext
from determined.core.supervision.checkpoint_records import CheckpointRecords


class DownloadMode(enum.Enum):
    """Whether the ranks of a node download a checkpoint together (all call in step) or each rank separately."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class CheckpointContext:
    """Stores and loads checkpoints.

    A checkpoint is a directory tree with an id and metadata; it becomes visible only when it is complete.
    """

    def __init__(
        self,
        distributed: DistributedContext,
        storage: CheckpointStorage,
        records: CheckpointRecords,
        keep: Retention | None = None,
        code: Path | None = None,
    ) -> None:
        """Create the context.

        `code` is the directory from which checkpoints link code files that are flushed only once.
        """
        self._distributed = distributed
        self._storage = storage
        self._records = records
        self._saver = CheckpointSaver(storage, records, keep, code)
        self._sharded = ShardedSaver(distributed, storage, self._saver)
        self._reader = CheckpointReader(distributed, storage)

    def _leave_lines_to_caller(self) -> None:
        """Log stored checkpoints at DEBUG from now on, because the caller shows each of them to the user itself."""
        # DEBUG and not off, so that a program that configures logging still finds the lines.
        self._saver.log_level = logging.DEBUG

    def _local_roots(self) -> list[Path]:
        """Return the directories of this machine that hold checkpoints."""
        return self._storage.local_roots()

    def upload(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None = None,
        *,
        shard: bool = False,
        selector: Selector | None = None,
    ) -> str:
        """Copy a directory to the checkpoint storage under a new id, and return the id.

        `shard=False` is for the chief only. With `shard=True` every rank calls this in step, each with its part of the
        files and of the metadata; a rank without files passes None.
        """
        if shard:
            return self._sharded.upload(ckpt_dir, metadata, selector)
        self._chief_only("upload")
        if ckpt_dir is None:
            raise ValueError("ckpt_dir is None: a checkpoint of one rank needs a directory")
        source = checked_directory(ckpt_dir)
        # Copied into a staging directory first, so that an interrupted copy never looks like a checkpoint.
        with self._saver.staged(metadata) as (path, checkpoint_id):
            with saying_not_saved(checkpoint_id):
                copy_files(source, path, selected_files(source, selector))
        return checkpoint_id

    @contextlib.contextmanager
    def store_path(
        self, metadata: dict[str, Any] | None = None, *, shard: bool = False, with_manifest: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Yield an empty directory to write a checkpoint into, and the checkpoint's id; store it when the block ends.

        `shard=False` is for the chief only. With `shard=True` every rank enters the block in step, and all write into
        the same directory. A failure in any block leaves no checkpoint. `with_manifest` adds a list of all files with
        their hashes, with which `restore_path` detects damage.
        """
        if shard:
            with self._sharded.staged(metadata) as staged:
                yield staged
        else:
            self._chief_only("store_path")
            with self._saver.staged(metadata, with_manifest) as staged:
                yield staged

    def _begin_storing(self, write: Callable[[Path], Mapping[str, str]], metadata: dict[str, Any]) -> CheckpointUpload:
        """Start to store a checkpoint in the background, from a forked snapshot of this process. For the chief only.

        `write` fills a directory and returns the SHA-256 of those files whose hash it already knows; a manifest is
        added. It runs in a forked child, so it sees memory as it is now while training continues; `forked_work`
        describes what it may do there. Raises CannotFork, without side effects, if the process cannot be forked.
        """
        self._chief_only("begin_storing")
        return self._saver.begin(write, metadata)

    def download(
        self,
        storage_id: str,
        ckpt_dir: str | os.PathLike[str],
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Copy a checkpoint, or the selected files of it, into a directory, which is created.

        In shared mode the ranks of a node call this in step; each file that one of them wants is downloaded once.
        """
        self._reader.download(storage_id, Path(ckpt_dir), selector, shared=_is_shared(download_mode))

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> Iterator[Path]:
        """Yield a directory with the checkpoint's files, or at least the selected ones, for reading inside the block.

        In shared mode the ranks of a node enter the block in step, see the files that any of them selected, and leave
        it together.
        """
        with self._reader.opened(storage_id, selector, shared=_is_shared(download_mode)) as path:
            yield path

    def of_the_last_run(self) -> list[str]:
        """Return the checkpoint ids of this program's last standalone run, newest first. For the chief only."""
        self._record_published()
        return self._records.of_the_last_run()

    def verify(self, storage_id: str) -> None:
        """Read a complete checkpoint and raise an error if a file is missing or damaged."""
        self._reader.verify(storage_id)

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint. Any rank may call this.

        Raises `CheckpointInUse` if the checkpoint is registered as a model version or another trial starts from it.
        """
        # Marked in the store first: after an interruption a later clean-up finds the mark and deletes the remaining
        # files. In the other order a recorded checkpoint could lack files.
        self._records.mark_own_deleted(storage_id)
        self._storage.delete(storage_id)
        self._records.set_deleted(storage_id)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """Return the metadata with which a checkpoint was stored."""
        return self._storage.metadata(storage_id)

    def _record_published(self) -> None:
        """Record checkpoints of processes that were killed before they could record them. For the chief only."""
        self._saver.record_published()

    def _chief_only(self, method: str) -> None:
        """Raise RuntimeError on every rank but the chief."""
        if self._distributed.rank != 0:
            raise RuntimeError(
                f"checkpoint.{method}(shard=False) is for the chief, this is rank {self._distributed.rank}: "
                "call it on rank 0 only, or on all ranks with shard=True"
            )


def _is_shared(download_mode: DownloadMode) -> bool:
    """Return whether the ranks of a node download together; raise TypeError if it is no `DownloadMode`."""
    if not isinstance(download_mode, DownloadMode):
        raise TypeError(f"download_mode must be a DownloadMode, got {download_mode!r}")
    return download_mode is DownloadMode.LocalWorkersShareDownload
