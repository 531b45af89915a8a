"""`CheckpointContext`: store, read and delete checkpoints, by one rank or by all ranks together."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from determined.checkpoint_storage import files, manifest
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage, Resources, Selector
from determined.checkpoint_storage.unrecorded import examine
from determined.config.secrets.masking import mask_secrets
from determined.core.checkpoints import shards
from determined.core.checkpoints.cleanup import Retention, clean_up
from determined.core.checkpoints.forked_work import fork
from determined.core.checkpoints.upload import CheckpointUpload, saying_not_saved
from determined.core.distributed import DistributedContext
from determined.core.jsonable import to_jsonable
from determined.core.ranks.agreement import in_step
from determined.core.supervision.base import CheckpointRecord, Supervisor
from determined.errors import DeterminedError
from determined.store.unrecorded import recover_unrecorded

logger = logging.getLogger("determined.core")

T = TypeVar("T")


class DownloadMode(enum.Enum):
    """Whether the ranks of a node download a checkpoint together (all call in step) or each rank separately."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class _Offer(NamedTuple):
    """The files and metadata that one rank contributes to a sharded upload."""

    listing: list[str] | None
    # Node, device, inode; None for a rank with a selector, which may choose other files of the same directory.
    directory: tuple[int, int, int] | None
    metadata: dict[str, Any]


class CheckpointContext:
    """Stores and loads checkpoints.

    A checkpoint is a directory tree with an id and metadata; it becomes visible only when it is complete.
    """

    def __init__(
        self,
        distributed: DistributedContext,
        storage: CheckpointStorage,
        supervisor: Supervisor,
        keep: Retention | None = None,
        code: Path | None = None,
    ) -> None:
        """Create the context.

        `code` is the directory from which checkpoints link code files that are flushed only once.
        """
        self._code = code
        self._distributed = distributed
        self._storage = storage
        self._supervisor = supervisor
        self._keep = keep
        self._log_level = logging.INFO

    def _leave_lines_to_caller(self) -> None:
        """Log stored checkpoints at DEBUG from now on, because the caller shows each of them to the user itself."""
        self._log_level = logging.DEBUG

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
            return self._upload_sharded(ckpt_dir, metadata, selector)
        self._chief_only("upload")
        if ckpt_dir is None:
            raise ValueError("ckpt_dir is None: a checkpoint of one rank needs a directory")
        source = _directory(ckpt_dir)
        with self._staged(metadata) as (path, storage_id):
            with saying_not_saved(storage_id):
                _copy(source, path, _listing(source, selector))
        return storage_id

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
            with self._staged_sharded(metadata) as staged:
                yield staged
        else:
            self._chief_only("store_path")
            with self._staged(metadata, with_manifest) as staged:
                yield staged

    def _begin_storing(self, write: Callable[[Path], Mapping[str, str]], metadata: dict[str, Any]) -> CheckpointUpload:
        """Start to store a checkpoint in the background, from a forked snapshot of this process. For the chief only.

        `write` fills a directory and returns the SHA-256 of those files whose hash it already knows; a manifest is
        added. It runs in a forked child, so it sees memory as it is now while training continues; `forked_work`
        describes what it may do there. Raises CannotFork, without side effects, if the process cannot be forked.
        """
        self._chief_only("begin_storing")
        checked = _checked_metadata(metadata)
        storage_id = str(uuid.uuid4())
        origin = self._supervisor.checkpoint_origin()
        with saying_not_saved(storage_id):
            staged = self._storage.stage(storage_id)

        def write_files() -> None:
            _write_descriptions(staged, checked, origin, write(staged))
            files.sync_tree(staged, self._code)

        try:
            return CheckpointUpload(
                storage_id,
                checked["steps_completed"],
                fork(write_files),
                commit=lambda: self._commit(storage_id),
                announce=lambda resources: self._announce(storage_id, checked, resources),
                abandon=lambda: self._storage.abandon(storage_id),
            )
        except BaseException:
            self._storage.abandon(storage_id)
            raise

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
        target = Path(ckpt_dir)
        if not _is_shared(download_mode) or self._distributed.local_size == 1:
            self._storage.fetch(storage_id, target, selector)
            return
        doing = f"downloading checkpoint {storage_id!r}"
        wanted = self._wanted_on_node(storage_id, selector, doing)

        def fetch() -> None:
            if self._distributed.local_rank == 0:
                self._storage.fetch(storage_id, target, wanted)

        self._on_node(fetch, doing)

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
        if not _is_shared(download_mode):
            with self._opened(storage_id, selector) as path:
                yield path
            return
        doing = f"opening checkpoint {storage_id!r}"
        wanted = self._wanted_on_node(storage_id, selector, doing)
        with contextlib.ExitStack() as stack:

            def enter() -> Path | None:
                # One rank downloads and verifies everything for all ranks of its node.
                if self._distributed.local_rank == 0:
                    return stack.enter_context(self._opened(storage_id, wanted))
                return None

            shown = self._on_node(enter, doing)[0]
            assert shown is not None
            yield shown
            self._distributed.allgather_local(None)

    def of_the_last_run(self) -> list[str]:
        """Return the checkpoint ids of this program's last standalone run, newest first. For the chief only."""
        self._record_published()
        return self._supervisor.checkpoints_of_the_last_run()

    def verify(self, storage_id: str) -> None:
        """Read a complete checkpoint and raise an error if a file is missing or damaged."""
        with self._storage.open(storage_id) as path:
            manifest.verify(path, storage_id)

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint. Any rank may call this.

        Raises `CheckpointInUse` if the checkpoint is registered as a model version or another trial starts from it.
        """
        # Marked in the store first: after an interruption a later clean-up finds the mark and deletes the remaining
        # files. In the other order a recorded checkpoint could lack files.
        self._supervisor.condemn_own_checkpoint(storage_id)
        self._storage.delete(storage_id)
        self._supervisor.checkpoint_deleted(storage_id)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """Return the metadata with which a checkpoint was stored."""
        return self._storage.metadata(storage_id)

    @contextlib.contextmanager
    def _opened(self, storage_id: str, selector: Selector | None) -> Iterator[Path]:
        """Open a checkpoint for reading and verify the selected files if it has a manifest."""

        def wanted(name: str) -> bool:
            return selector is None or name == manifest.MANIFEST_FILE or selector(name)

        with self._storage.open(storage_id, selector and wanted) as path:
            if manifest.exists(path):
                manifest.verify(path, storage_id, wanted)
            yield path

    def _wanted_on_node(self, storage_id: str, selector: Selector | None, doing: str) -> Selector | None:
        """Return a selector for the files that any rank of this node wants; None selects all files."""
        if any(self._on_node(lambda: selector is None, doing)):
            return None
        local_chief = self._distributed.local_rank == 0
        names = self._on_node(lambda: list(self._storage.resources(storage_id)) if local_chief else [], doing)[0]
        wanted: set[str] = set()
        for part in self._on_node(lambda: [name for name in names if selector is None or selector(name)], doing):
            wanted.update(part)
        return wanted.__contains__

    def _chief_only(self, method: str) -> None:
        """Raise RuntimeError on every rank but the chief."""
        if self._distributed.rank != 0:
            raise RuntimeError(
                f"checkpoint.{method}(shard=False) is for the chief, this is rank {self._distributed.rank}: "
                "call it on rank 0 only, or on all ranks with shard=True"
            )

    @contextlib.contextmanager
    def _staged(self, metadata: dict[str, Any] | None, with_manifest: bool = False) -> Iterator[tuple[Path, str]]:
        """Yield a staging directory and a new id; store it at the end of the block, or discard it on failure."""
        _checked_metadata(metadata)
        storage_id = str(uuid.uuid4())
        try:
            with saying_not_saved(storage_id):
                path = self._storage.stage(storage_id)
            yield path, storage_id
            self._finish(storage_id, _checked_metadata(metadata), with_manifest)
        except BaseException:
            self._storage.abandon(storage_id)
            raise

    @contextlib.contextmanager
    def _staged_sharded(self, metadata: dict[str, Any] | None) -> Iterator[tuple[Path, str]]:
        """Yield the staging directory that all ranks share; store the checkpoint when all blocks have succeeded."""
        doing = "storing a sharded checkpoint"
        parts = self._together(lambda: _jsonable_metadata(metadata), doing)
        _checked_metadata(shards.merge_metadata(parts))
        storage_id = self._stage_together(doing)
        failure: Exception | None = None
        try:
            try:
                yield self._storage.staged(storage_id), storage_id
            except Exception as error:  # noqa: BLE001  (raised below, once the other ranks know)
                failure = error
            self._finish_together(storage_id, metadata, failure, doing)
        except BaseException:
            self._storage.abandon(storage_id)
            raise

    def _finish_together(
        self, storage_id: str, metadata: dict[str, Any] | None, failure: Exception | None, doing: str
    ) -> None:
        """Exchange failures and metadata of all ranks; commit the checkpoint, or raise on every rank."""

        def own_part() -> dict[str, Any]:
            if failure is not None:
                raise failure
            return _jsonable_metadata(metadata)

        try:
            parts = self._together(own_part, doing)
        except Exception as error:
            if failure is not None and error is not failure:
                raise failure from error  # show the user's own error rather than the report of another rank's
            raise
        self._commit_together(storage_id, shards.merge_metadata(parts), doing)

    def _upload_sharded(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None,
        selector: Selector | None,
    ) -> str:
        """Upload each file once, after all ranks have agreed on which rank uploads it."""
        doing = "uploading a sharded checkpoint"
        offers = self._together(lambda: self._offer(ckpt_dir, metadata, selector), doing)
        if all(offer.listing is None for offer in offers):
            raise RuntimeError("no rank gave a ckpt_dir to upload(shard=True): there is nothing to store")
        merged = _checked_metadata(shards.merge_metadata([offer.metadata for offer in offers]))
        uploads = shards.first_of_each([offer.directory for offer in offers])
        listings = [
            offer.listing if upload and offer.listing else [] for upload, offer in zip(uploads, offers, strict=True)
        ]
        rank = self._distributed.rank
        source = None if ckpt_dir is None else Path(ckpt_dir)
        shared = shards.shared_files(listings)

        def digests() -> dict[str, str]:
            return {name: _digest(source / name) for name in listings[rank] if name in shared} if source else {}

        assigned = shards.assign(listings, self._together(digests, doing))
        storage_id = self._stage_together(doing)

        def copy() -> None:
            if source is not None:
                with saying_not_saved(storage_id):
                    _copy(source, self._storage.staged(storage_id), assigned[rank])

        try:
            self._together(copy, doing)
            self._commit_together(storage_id, merged, doing)
        except BaseException:
            self._storage.abandon(storage_id)
            raise
        return storage_id

    def _offer(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None,
        selector: Selector | None,
    ) -> _Offer:
        """Return what this rank contributes to a sharded upload."""
        kept = _jsonable_metadata(metadata)
        if ckpt_dir is None:
            return _Offer(None, None, kept)
        source = _directory(ckpt_dir)
        status = source.stat()
        key = (self._distributed.cross_rank, status.st_dev, status.st_ino) if selector is None else None
        return _Offer(_listing(source, selector), key, kept)

    def _stage_together(self, doing: str) -> str:
        """Create the staging directory on the chief and return its id on all ranks."""

        def stage() -> str:
            storage_id = str(uuid.uuid4())
            if self._distributed.rank == 0:
                with saying_not_saved(storage_id):
                    self._storage.stage(storage_id)
            return storage_id

        return self._together(stage, doing)[0]

    def _commit_together(self, storage_id: str, metadata: dict[str, Any], doing: str) -> None:
        """Commit the checkpoint on the chief; no rank continues before it is visible."""
        checked = _checked_metadata(metadata)

        def contribute() -> None:
            with saying_not_saved(storage_id):
                self._storage.contribute(storage_id)

        self._together(contribute, doing)

        def commit() -> None:
            if self._distributed.rank == 0:
                self._finish(storage_id, checked)

        self._together(commit, doing)

    def _finish(self, storage_id: str, metadata: dict[str, Any], with_manifest: bool = False) -> None:
        """Write the descriptions of a staged checkpoint, commit it and record it."""
        origin = self._supervisor.checkpoint_origin() if with_manifest else None
        with saying_not_saved(storage_id):
            _write_descriptions(self._storage.staged(storage_id), metadata, origin)
            resources = self._commit(storage_id)
        self._announce(storage_id, metadata, resources)

    def _commit(self, storage_id: str) -> Resources:
        """Make a checkpoint visible, after a note in the store.

        With that note the checkpoint can be recorded even if this process is killed between the two steps.
        """
        self._supervisor.publish_checkpoint(storage_id)
        return self._storage.commit(storage_id, self._code)

    def _record_published(self) -> None:
        """Record checkpoints in this storage whose processes were killed before they could record them.

        For the chief only.
        """
        for storage in (self._storage, self._storage.earlier):
            if storage is None:
                continue
            try:
                recover_unrecorded(self._supervisor.store, mask_secrets(storage.name), partial(examine, storage))
            except OSError as error:
                logger.warning("checkpoints that were not recorded could not be looked at: %s", error)

    def _announce(self, storage_id: str, metadata: dict[str, Any], resources: Resources) -> None:
        """Record a stored checkpoint, log it, and delete checkpoints that the retention policy does not keep."""
        try:
            self._supervisor.report_checkpoint(
                CheckpointRecord(storage_id, metadata["steps_completed"], metadata, resources)
            )
        except DeterminedError as error:
            raise type(error)(f"checkpoint {storage_id} is stored, but it could not be recorded: {error}") from error
        logger.log(self._log_level, "stored checkpoint %s", storage_id)
        if self._keep is not None:
            clean_up(self._storage, self._supervisor, self._keep)

    def _together(self, action: Callable[[], T], doing: str) -> list[T]:
        return in_step(self._distributed.allgather, self._distributed.rank, action, doing=doing)

    def _on_node(self, action: Callable[[], T], doing: str) -> list[T]:
        return in_step(self._distributed.allgather_local, self._distributed.rank, action, doing=doing)


def _write_descriptions(
    staged: Path, metadata: dict[str, Any], origin: dict[str, Any] | None, digests: Mapping[str, str] | None = None
) -> None:
    """Write the metadata file, and a manifest if the origin is given."""
    (staged / METADATA_FILE).write_text(json.dumps(metadata, indent=2))
    if origin is not None:
        manifest.write(staged, digests, origin)


def _jsonable_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as JSON-compatible data; raise TypeError if that is impossible."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise TypeError(f"checkpoint metadata must be a dict, got {metadata!r}")
    kept: dict[str, Any] = to_jsonable(metadata, "checkpoint metadata")
    return kept


def _checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as JSON-compatible data; raise if `steps_completed` is missing or not an integer."""
    kept = _jsonable_metadata(metadata)
    if "steps_completed" not in kept:
        raise ValueError("the checkpoint metadata lacks steps_completed: pass metadata={'steps_completed': <int>, ...}")
    steps = kept["steps_completed"]
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"steps_completed in the checkpoint metadata must be an int, got {steps!r}")
    return kept


def _directory(ckpt_dir: str | os.PathLike[str]) -> Path:
    path = Path(ckpt_dir)
    if not path.is_dir():
        raise NotADirectoryError(f"the checkpoint directory ckpt_dir {str(path)!r} is not a directory")
    return path


def _listing(source: Path, selector: Selector | None) -> list[str]:
    """Return the selected paths of a directory, without the metadata file, which this library writes."""
    names = [name + "/" if is_directory else name for name, is_directory in files.walk(source)]
    return [name for name in names if name != METADATA_FILE and (selector is None or selector(name))]


def _copy(source: Path, target: Path, names: list[str]) -> None:
    for name in names:
        if name.endswith("/"):
            (target / name).mkdir(parents=True, exist_ok=True)
        else:
            files.copy_file(source / name, target / name)


def _digest(path: Path) -> str:
    """Return the MD5 of a file. It only tells whether ranks have the same file; it protects nothing."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()


def _is_shared(download_mode: DownloadMode) -> bool:
    if not isinstance(download_mode, DownloadMode):
        raise TypeError(f"download_mode must be a DownloadMode, got {download_mode!r}")
    return download_mode is DownloadMode.LocalWorkersShareDownload
