"""Stores checkpoints to which several ranks contribute. Every rank calls in step, and all succeed or all fail."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from determined.checkpoint_storage.base import CheckpointStorage, Selector
from determined.core.checkpoints import shards
from determined.core.checkpoints.contents import (
    checked_directory,
    checked_metadata,
    copy_files,
    digest,
    jsonable_metadata,
    selected_files,
)
from determined.core.checkpoints.saver import CheckpointSaver
from determined.core.checkpoints.upload import saying_not_saved
from determined.core.distributed import DistributedContext
from determined.core.ranks.agreement import in_step

T = TypeVar("T")


class _RankFiles(NamedTuple):
    """The files and metadata that one rank contributes to a sharded upload."""

    listing: list[str] | None
    # Node, device, inode; None for a rank with a selector, which may choose other files of the same directory.
    directory: tuple[int, int, int] | None
    metadata: dict[str, Any]


class ShardedSaver:
    """Stores checkpoints of all ranks together; the chief makes them visible and records them."""

    def __init__(self, distributed: DistributedContext, storage: CheckpointStorage, saver: CheckpointSaver) -> None:
        self._distributed = distributed
        self._storage = storage
        self._saver = saver

    @contextlib.contextmanager
    def staged(self, metadata: dict[str, Any] | None) -> Iterator[tuple[Path, str]]:
        """Yield the staging directory that all ranks share; store the checkpoint when all blocks have succeeded."""
        doing = "storing a sharded checkpoint"
        # Every rank contributes its part, and only the merged metadata needs `steps_completed`.
        parts = self._on_all_ranks(lambda: jsonable_metadata(metadata), doing)
        checked_metadata(shards.merge_metadata(parts))
        checkpoint_id = self._stage(doing)
        failure: Exception | None = None
        try:
            try:
                yield self._storage.staged(checkpoint_id), checkpoint_id
            except Exception as error:  # noqa: BLE001  (raised below, once the other ranks know)
                failure = error
            # Called on every rank, whether or not its block failed: the others wait for it.
            self._finish(checkpoint_id, metadata, failure, doing)
        # BaseException: also after Ctrl-C the staged files must not stay.
        except BaseException:
            self._storage.abandon(checkpoint_id)
            raise

    def upload(
        self, ckpt_dir: str | os.PathLike[str] | None, metadata: dict[str, Any] | None, selector: Selector | None
    ) -> str:
        """Upload each file once, after all ranks have agreed on which rank uploads it, and return the new id."""
        doing = "uploading a sharded checkpoint"
        offers = self._on_all_ranks(lambda: self._rank_files(ckpt_dir, metadata, selector), doing)
        if all(offer.listing is None for offer in offers):
            raise RuntimeError("no rank gave a ckpt_dir to upload(shard=True): there is nothing to store")
        merged = checked_metadata(shards.merge_metadata([offer.metadata for offer in offers]))
        uploads = shards.first_of_each([offer.directory for offer in offers])
        listings = [
            offer.listing if upload and offer.listing else [] for upload, offer in zip(uploads, offers, strict=True)
        ]
        rank = self._distributed.rank
        source = None if ckpt_dir is None else Path(ckpt_dir)
        # Only files that several ranks offer are hashed: hashing all files would read the checkpoint twice.
        shared = shards.shared_files(listings)

        def digests() -> dict[str, str]:
            return {name: digest(source / name) for name in listings[rank] if name in shared} if source else {}

        assigned = shards.assign(listings, self._on_all_ranks(digests, doing))
        checkpoint_id = self._stage(doing)

        def copy() -> None:
            if source is not None:
                with saying_not_saved(checkpoint_id):
                    copy_files(source, self._storage.staged(checkpoint_id), assigned[rank])

        try:
            self._on_all_ranks(copy, doing)
            self._commit(checkpoint_id, merged, doing)
        except BaseException:
            self._storage.abandon(checkpoint_id)
            raise
        return checkpoint_id

    def _finish(
        self, checkpoint_id: str, metadata: dict[str, Any] | None, failure: Exception | None, doing: str
    ) -> None:
        """Exchange failures and metadata of all ranks; commit the checkpoint, or raise on every rank."""

        def own_part() -> dict[str, Any]:
            if failure is not None:
                raise failure
            return jsonable_metadata(metadata)

        try:
            parts = self._on_all_ranks(own_part, doing)
        except Exception as error:
            if failure is not None and error is not failure:
                raise failure from error  # show the user's own error rather than the report of another rank's
            raise
        self._commit(checkpoint_id, shards.merge_metadata(parts), doing)

    def _rank_files(
        self, ckpt_dir: str | os.PathLike[str] | None, metadata: dict[str, Any] | None, selector: Selector | None
    ) -> _RankFiles:
        """Return what this rank contributes to a sharded upload."""
        kept = jsonable_metadata(metadata)
        if ckpt_dir is None:
            return _RankFiles(None, None, kept)
        source = checked_directory(ckpt_dir)
        status = source.stat()
        # Ranks of one node that pass the same directory would otherwise upload every file several times.
        key = (self._distributed.cross_rank, status.st_dev, status.st_ino) if selector is None else None
        return _RankFiles(selected_files(source, selector), key, kept)

    def _stage(self, doing: str) -> str:
        """Create the staging directory on the chief and return its id on all ranks."""

        def stage() -> str:
            # On every rank, because all ranks run the same function; only the id of the chief is used.
            checkpoint_id = str(uuid.uuid4())
            if self._distributed.rank == 0:
                with saying_not_saved(checkpoint_id):
                    self._storage.stage(checkpoint_id)
            return checkpoint_id

        return self._on_all_ranks(stage, doing)[0]

    def _commit(self, checkpoint_id: str, metadata: dict[str, Any], doing: str) -> None:
        """Commit the checkpoint on the chief; no rank continues before it is visible."""
        checked = checked_metadata(metadata)

        def contribute() -> None:
            with saying_not_saved(checkpoint_id):
                self._storage.contribute(checkpoint_id)

        # Every rank has finished its files before the chief makes the checkpoint visible.
        self._on_all_ranks(contribute, doing)

        def commit() -> None:
            if self._distributed.rank == 0:
                self._saver.finish(checkpoint_id, checked)

        self._on_all_ranks(commit, doing)

    def _on_all_ranks(self, action: Callable[[], T], doing: str) -> list[T]:
        """Run an action on every rank and return all results, or raise on every rank if it fails on one."""
        return in_step(self._distributed.allgather, self._distributed.rank, action, doing=doing)
