"""The interface of a checkpoint storage, and the validation of checkpoint ids."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from determined.checkpoint_storage.outputs import OutputStorage, is_output_id
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from determined.names import NAME_RULE, is_name, shown

# Part of the stored format: it marks a checkpoint as complete in object stores, so the name cannot change.
METADATA_FILE = "metadata.json"
# Marks of killed runners are deleted after this time. Long, because nodes that join an experiment read its mark.
MARKS_ARE_KEPT = timedelta(days=60)

Selector = Callable[[str], bool]
"""Takes a relative path, directories with a trailing slash; says whether it is wanted."""

Resources = dict[str, int]
"""Relative path to size in bytes; directories end in a slash and have size 0."""


def checked_id(name: object) -> str:
    """Return a name if it is a valid checkpoint id; raise CheckpointNotFound otherwise.

    The id becomes part of a path, so any other text could lead out of the storage.
    """
    if is_output_id(name):
        raise CheckpointNotFound(f"{name} is the output of a trial, not a checkpoint")
    if not is_name(name):
        raise CheckpointNotFound(f"{shown(name)} cannot be the id of a checkpoint: expected {NAME_RULE}")
    return name


def parse_metadata(checkpoint_id: str, content: str | bytes) -> dict[str, Any]:
    """Return the parsed content of a metadata file."""
    try:
        metadata = json.loads(content)
    except ValueError as error:
        raise InvalidCheckpointException(
            f"checkpoint {checkpoint_id}: {METADATA_FILE} cannot be read: {error}"
        ) from error
    if not isinstance(metadata, dict):
        raise InvalidCheckpointException(f"checkpoint {checkpoint_id}: {METADATA_FILE} does not hold a map")
    return metadata


class CheckpointStorage(Protocol):
    """A place where checkpoints are stored. A checkpoint is visible under its id only when it is complete."""

    @property
    def name(self) -> str:
        """The location of the checkpoints as shown to users, without secrets."""
        ...

    @property
    def outputs(self) -> OutputStorage:
        """The outputs of trials, which are stored beside the checkpoints."""
        ...

    @property
    def earlier(self) -> CheckpointStorage | None:
        """The storage location of an earlier version; checkpoints there are found by their ids as well."""
        ...

    def local_roots(self) -> list[Path]:
        """Return the directories of this machine that hold checkpoints; a copy of the user's code must exclude them."""
        ...

    def probe(self) -> None:
        """Check that a checkpoint could be written now; raise an error that names the location otherwise."""
        ...

    def write_mark(self, name: str) -> None:
        """Store a small file with this name, by which other machines recognize the same storage."""
        ...

    def has_mark(self, name: str) -> bool:
        """Return whether the storage has a mark with this name."""
        ...

    def delete_mark(self, name: str) -> None:
        """Delete a mark; do nothing if it does not exist."""
        ...

    def stage(self, checkpoint_id: str) -> Path:
        """Create and return an empty directory to write a checkpoint into."""
        ...

    def staged(self, checkpoint_id: str) -> Path:
        """Return the directory that the chief has staged, or on another machine a separate one for this checkpoint."""
        ...

    def contribute(self, checkpoint_id: str) -> None:
        """Upload what ranks of this machine wrote, if the chief is on another machine and cannot see it."""
        ...

    def commit(self, checkpoint_id: str, flushed: Path | None = None) -> Resources:
        """Flush the staged files to disk, then make them visible under the id in one step.

        `flushed` is a tree whose files are already on disk: hard links to them need not be flushed again.
        """
        ...

    def abandon(self, checkpoint_id: str) -> None:
        """Delete what this process staged for a checkpoint; do nothing if it staged nothing."""
        ...

    def resources(self, checkpoint_id: str) -> Resources:
        """Return the paths and sizes of the checkpoint's files."""
        ...

    def metadata(self, checkpoint_id: str) -> dict[str, Any]:
        """Return the content of the metadata file; empty if there is none."""
        ...

    def open(self, checkpoint_id: str, wanted: Selector | None = None) -> contextlib.AbstractContextManager[Path]:
        """Yield a directory with the checkpoint's files, or at least the wanted ones, for use inside the block."""
        ...

    def fetch(self, checkpoint_id: str, directory: Path, wanted: Selector | None = None) -> None:
        """Copy the checkpoint, or the wanted files of it, into a directory, which is created."""
        ...

    def rewrite(self, checkpoint_id: str, content: Mapping[str, bytes]) -> Resources:
        """Replace small top-level files of a checkpoint, one by one in the given order; return its resources."""
        ...

    def remove_files(self, checkpoint_id: str, unwanted: Selector) -> Resources:
        """Delete the files that `unwanted` selects, except the metadata file; return the remaining files and sizes."""
        ...

    def delete(self, checkpoint_id: str) -> None:
        """Delete a checkpoint."""
        ...
