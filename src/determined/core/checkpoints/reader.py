"""Reads checkpoints from the storage, by one rank or by the ranks of a node together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import CheckpointStorage, Selector
from determined.core.distributed import DistributedContext
from determined.core.ranks.agreement import in_step

T = TypeVar("T")


class CheckpointReader:
    """Downloads and opens checkpoints. With `shared`, the ranks of a node call in step, and one downloads for all."""

    def __init__(self, distributed: DistributedContext, storage: CheckpointStorage) -> None:
        self._distributed = distributed
        self._storage = storage

    def download(self, checkpoint_id: str, target: Path, selector: Selector | None, *, shared: bool) -> None:
        """Copy a checkpoint, or the selected files of it, into a directory."""
        if not shared or self._distributed.local_size == 1:
            self._storage.fetch(checkpoint_id, target, selector)
            return
        doing = f"downloading checkpoint {checkpoint_id!r}"
        wanted = self._wanted_on_node(checkpoint_id, selector, doing)

        def fetch() -> None:
            if self._distributed.local_rank == 0:
                # Only the first rank of the node downloads; a shared directory would otherwise be written by several.
                self._storage.fetch(checkpoint_id, target, wanted)

        self._on_node(fetch, doing)

    @contextlib.contextmanager
    def opened(self, checkpoint_id: str, selector: Selector | None, *, shared: bool) -> Iterator[Path]:
        """Yield a directory with the checkpoint's files, or at least the selected ones, for reading.

        With `shared`, all ranks of a machine call this together: one of them opens the checkpoint, and they leave the
        block together.
        """
        if not shared:
            with self._opened_here(checkpoint_id, selector) as path:
                yield path
            return
        doing = f"opening checkpoint {checkpoint_id!r}"
        wanted = self._wanted_on_node(checkpoint_id, selector, doing)
        with contextlib.ExitStack() as stack:

            def enter() -> Path | None:
                # One rank downloads and verifies everything for all ranks of its node.
                if self._distributed.local_rank == 0:
                    return stack.enter_context(self._opened_here(checkpoint_id, wanted))
                return None

            shown = self._on_node(enter, doing)[0]
            assert shown is not None
            yield shown
            # The rank that opened the checkpoint must not delete a temporary copy while others still read it.
            self._distributed.allgather_local(None)

    def verify(self, checkpoint_id: str) -> None:
        """Read a complete checkpoint and raise an error if a file is missing or damaged."""
        with self._storage.open(checkpoint_id) as path:
            manifest.verify(path, checkpoint_id)

    @contextlib.contextmanager
    def _opened_here(self, checkpoint_id: str, selector: Selector | None) -> Iterator[Path]:
        """Open a checkpoint for reading and verify the selected files if it has a manifest."""

        # The manifest is needed to verify the files, even if it was not selected.
        def wanted(name: str) -> bool:
            return selector is None or name == manifest.MANIFEST_FILE or selector(name)

        with self._storage.open(checkpoint_id, selector and wanted) as path:
            if manifest.exists(path):
                manifest.verify(path, checkpoint_id, wanted)
            yield path

    def _wanted_on_node(self, checkpoint_id: str, selector: Selector | None, doing: str) -> Selector | None:
        """Return a selector for the files that any rank of this node wants; None selects all files."""
        # One rank that wants everything makes the selections of the others irrelevant.
        if any(self._on_node(lambda: selector is None, doing)):
            return None
        local_chief = self._distributed.local_rank == 0
        # The list is read by one rank and distributed: listing an object store costs a request for each rank.
        names = self._on_node(lambda: list(self._storage.resources(checkpoint_id)) if local_chief else [], doing)[0]
        wanted: set[str] = set()
        for part in self._on_node(lambda: [name for name in names if selector is None or selector(name)], doing):
            wanted.update(part)
        return wanted.__contains__

    def _on_node(self, action: Callable[[], T], doing: str) -> list[T]:
        """Run an action on every rank of this node and return all results, or raise on all if it fails on one."""
        return in_step(self._distributed.allgather_local, self._distributed.rank, action, doing=doing)
