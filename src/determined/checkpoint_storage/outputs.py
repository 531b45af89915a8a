"""The interface for outputs in a checkpoint storage: files of a trial that are added and replaced while it runs.

An output is not a checkpoint. Its id begins with `output-`, it has no metadata file and no retention applies to it.
The files of one upload are prepared out of sight and then moved into place. A file that is replaced is kept aside
under the key of the upload that replaced it, until the progress of the trial covers that upload: after a crash before
that moment the upload is taken back, and the earlier file is needed again.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import uuid
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from determined.checkpoint_storage import files
from determined.checkpoint_storage.staging import Staging
from determined.errors import CheckpointNotFound
from determined.names import is_file_name, shown

_PREFIX = "output-"
_ID = re.compile(_PREFIX + "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KEY = re.compile("[0-9a-f]{32}")


class OutputStorage(Protocol):
    """Outputs in one storage. Names are those of `rank_<n>/<file>`, with slashes."""

    def staged(self) -> contextlib.AbstractContextManager[Path]:
        """Yield a new hidden directory; it is removed at the end of the block, or later if the process was killed."""
        ...

    def publish(self, output: str, key: str, staged: Path, below: str, names: Collection[str]) -> bool:
        """Move files of a staged directory into the directory `below` of an output, durably.

        Files of the same names are kept aside; returns whether there were any. After an error or a kill, `take_back`
        restores the state before.
        """
        ...

    def take_back(self, output: str, key: str, names: Collection[str], earlier: Collection[str]) -> list[str]:
        """Remove the files of an upload and put those back that it replaced; returns the files that stay.

        `earlier` are the names that had a file before the upload. If such a file was not kept aside, either the
        upload was interrupted before it, or the earlier file was removed for good: in both cases the present one stays.
        """
        ...

    def forget_replaced(self, output: str, key: str) -> None:
        """Remove what was kept aside for an upload; nothing happens when there is nothing."""
        ...

    def forget_all_replaced(self, output: str) -> None:
        """Remove what was kept aside for any upload of an output."""
        ...

    def fetch(self, output: str, resources: Mapping[str, int], directory: Path, replaced_by: Mapping[str, str]) -> None:
        """Copy files of an output into a directory, which is created; the sizes must be those given.

        `replaced_by` names uploads that are not finished, by the files they may have replaced: of those the file that
        was kept aside is taken, if there is one.
        """
        ...

    def delete(self, output: str) -> None:
        """Remove an output with all that belongs to it; nothing happens when it is not there."""
        ...


@contextlib.contextmanager
def staged_upload(staging: Staging) -> Iterator[Path]:
    """Yield a new hidden directory for one upload; see `OutputStorage.staged`."""
    name = f"upload.{secrets.token_hex(8)}"
    try:
        yield staging.create(name)
    finally:
        staging.remove(name)


def new_output_id() -> str:
    """Return the id of a new output."""
    return f"{_PREFIX}{uuid.uuid4()}"


def is_output_id(name: object) -> bool:
    """Return whether a name can be the id of an output; no checkpoint has such an id."""
    return isinstance(name, str) and _ID.fullmatch(name) is not None


def output_id(name: object) -> str:
    """Check the id of an output: it becomes a part of paths, so nothing else may pass."""
    if not is_output_id(name):
        raise CheckpointNotFound(f"{shown(name)} cannot be the id of an output: expected {_PREFIX}<uuid>")
    return str(name)


def upload_key(key: str) -> str:
    """Check the key of an upload, which becomes a part of paths as well."""
    if not _KEY.fullmatch(key):
        raise CheckpointNotFound(f"{shown(key)} cannot be the key of an upload")
    return key


def file_name(name: str) -> str:
    """Check the name of a file of an output."""
    if not is_file_name(name) or name.endswith("/") or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"{shown(name)} cannot be the name of a file of an output: use letters, digits, '-', '_', '.'")
    return name


def not_whole(output: str, name: str, found: int | None, expected: int) -> CheckpointNotFound:
    """An error for a file that is not there as it was recorded."""
    state = "is missing" if found is None else f"has {found} bytes instead of {expected}"
    return CheckpointNotFound(f"output {output} was not downloaded: {name} {state}; it may be changing, try again")


def staged_files(directory: Path) -> dict[str, int]:
    """Return name and size of every file below a staged directory; links and special files are refused."""
    found: dict[str, int] = {}
    for parent, directories, names in os.walk(directory):
        for name in [*directories, *names]:
            path = Path(parent, name)
            shown = path.relative_to(directory).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise ValueError(f"{shown!r} in upload_path() is a link or a special file: write a regular file")
            found[file_name(shown)] = path.lstat().st_size
    return dict(sorted(found.items()))


def sync_directories(directories: Collection[Path]) -> None:
    """Flush directories to the disk, the deepest first."""
    for directory in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        files.sync(directory)
