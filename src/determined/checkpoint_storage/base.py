"""What every checkpoint storage offers, and what a checkpoint may be called."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from determined.checkpoint_storage.outputs import OutputStorage, is_output_id
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from determined.names import NAME_RULE, is_name, shown

METADATA_FILE = "metadata.json"

Selector = Callable[[str], bool]
"""Takes a relative path, directories with a trailing slash; says whether it is wanted."""

Resources = dict[str, int]
"""Relative path to size in bytes; directories end in a slash and have size 0."""


def checkpoint_id(name: object) -> str:
    """Check that a name can be a checkpoint's id: it is joined to paths, so nothing else may pass."""
    if is_output_id(name):
        raise CheckpointNotFound(f"{name} is the output of a trial, not a checkpoint")
    if not is_name(name):
        raise CheckpointNotFound(f"{shown(name)} cannot be the id of a checkpoint: expected {NAME_RULE}")
    return name


def parse_metadata(storage_id: str, content: str | bytes) -> dict[str, Any]:
    """What a metadata file says."""
    try:
        metadata = json.loads(content)
    except ValueError as error:
        raise InvalidCheckpointException(f"checkpoint {storage_id}: {METADATA_FILE} cannot be read: {error}") from error
    if not isinstance(metadata, dict):
        raise InvalidCheckpointException(f"checkpoint {storage_id}: {METADATA_FILE} does not hold a map")
    return metadata


class CheckpointStorage(Protocol):
    """Where checkpoints lie. A checkpoint is visible under its id only when it is complete."""

    @property
    def name(self) -> str:
        """Where the checkpoints lie, as people would look for them; without secrets."""
        ...

    @property
    def outputs(self) -> OutputStorage:
        """The outputs of trials, which lie beside the checkpoints."""
        ...

    @property
    def earlier(self) -> CheckpointStorage | None:
        """Where an earlier version kept checkpoints of this storage: they are found by their ids as well."""
        ...

    def local_roots(self) -> list[Path]:
        """Directories of this machine that hold checkpoints: a copy of the code must leave them out."""
        ...

    def probe(self) -> None:
        """Prove that a checkpoint could be written now, or raise an error that names the place."""
        ...

    def stage(self, storage_id: str) -> Path:
        """A new empty directory to write a checkpoint into."""
        ...

    def staged(self, storage_id: str) -> Path:
        """The directory that another rank staged; on another machine, one of its own for the same checkpoint."""
        ...

    def contribute(self, storage_id: str) -> None:
        """Add what ranks of this machine wrote, if the chief is on another one and cannot see it."""
        ...

    def commit(self, storage_id: str, flushed: Path | None = None) -> Resources:
        """Make the staged files durable, then visible under the id in one step.

        `flushed` is a tree whose files are durable: hard links to them need not be flushed.
        """
        ...

    def abandon(self, storage_id: str) -> None:
        """Remove what this process staged; nothing happens when there is none."""
        ...

    def resources(self, storage_id: str) -> Resources:
        """What the checkpoint consists of."""
        ...

    def metadata(self, storage_id: str) -> dict[str, Any]:
        """What its metadata file says; empty when it has none."""
        ...

    def open(self, storage_id: str, wanted: Selector | None = None) -> contextlib.AbstractContextManager[Path]:
        """A directory with the checkpoint's files, or at least those wanted, valid inside the block."""
        ...

    def fetch(self, storage_id: str, directory: Path, wanted: Selector | None = None) -> None:
        """Copy the checkpoint, or what is wanted of it, into a directory, which is created."""
        ...

    def rewrite(self, storage_id: str, content: Mapping[str, bytes]) -> Resources:
        """Replace small files at its top, one after the other in that order; returns what it consists of then."""
        ...

    def remove_files(self, storage_id: str, unwanted: Selector) -> Resources:
        """Remove some of its files, but never the metadata file; returns what is left."""
        ...

    def delete(self, storage_id: str) -> None:
        """Remove the checkpoint."""
        ...
