"""The interface for outputs in a checkpoint storage: files of a trial that are added and replaced while it runs.

An output is not a checkpoint. Its id begins with `output-`, it has no metadata file, and no retention applies to it.
The files of one upload are prepared in a hidden directory and then moved into place. A file that is replaced is kept
under the key of the upload that replaced it until the saved progress of the trial covers that upload: after an earlier
crash the upload is undone, and the replaced file is restored.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from determined.checkpoint_storage.staging import Staging
from determined.durable_files import sync
from determined.errors import CheckpointNotFound
from determined.names import is_file_name, shown

_PREFIX = "output-"
_ID = re.compile(_PREFIX + "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KEY = re.compile("[0-9a-f]{32}")  # `uuid4().hex`; becomes part of a path


class OutputStorage(Protocol):
    """The outputs in one storage. File names have the form `rank_<n>/<file>`, with slashes."""

    def staged(self) -> contextlib.AbstractContextManager[Path]:
        """Yield a new hidden directory. It is deleted at the end of the block, or later if the process was killed."""
        ...

    def publish(self, output: str, key: str, staged: Path, below: str, names: Collection[str]) -> bool:
        """Move files of a staged directory durably into the directory `below` of an output.

        Existing files of the same names are kept aside; returns whether there were any. After an error or a kill,
        `revert` restores the previous state.
        """
        ...

    def revert(self, output: str, key: str, names: Collection[str], earlier: Collection[str]) -> list[str]:
        """Delete the files of an upload and restore those that it replaced; return the files that stay.

        `earlier` are the names that had a file before the upload. If such a file was not kept aside, either the upload
        was interrupted before replacing it, or the earlier file was deleted for good: in both cases the present file
        stays.
        """
        ...

    def delete_replaced(self, output: str, key: str) -> None:
        """Delete the replaced files of an upload, if any."""
        ...

    def delete_all_replaced(self, output: str) -> None:
        """Delete the replaced files of all uploads of an output."""
        ...

    def fetch(self, output: str, resources: Mapping[str, int], directory: Path, replaced_by: Mapping[str, str]) -> None:
        """Copy files of an output into a directory, which is created; raise if a size differs from the given one.

        `replaced_by` maps files to unfinished uploads that may have replaced them: of those the kept earlier file is
        copied, if there is one.
        """
        ...

    def delete(self, output: str) -> None:
        """Delete an output and everything that belongs to it; do nothing if it does not exist."""
        ...


@contextlib.contextmanager
def staged_upload(staging: Staging, open_root: Callable[[], None]) -> Iterator[Path]:
    """Yield a new hidden directory for one upload; see `OutputStorage.staged`. `open_root` opens the storage first."""
    open_root()
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
    """Return a name if it is a valid output id, which becomes part of a path; raise CheckpointNotFound otherwise."""
    if not is_output_id(name):
        raise CheckpointNotFound(f"{shown(name)} cannot be the id of an output: expected {_PREFIX}<uuid>")
    return str(name)


def upload_key(key: str) -> str:
    """Return a key if it is a valid upload key, which becomes part of a path; raise CheckpointNotFound otherwise."""
    if not _KEY.fullmatch(key):
        raise CheckpointNotFound(f"{shown(key)} cannot be the key of an upload")
    return key


def file_name(name: str) -> str:
    """Return a name if it is a valid file name of an output; raise ValueError otherwise."""
    # Object stores take names as UTF-8, which cannot encode surrogates.
    if not is_file_name(name) or name.endswith("/") or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"{shown(name)} cannot be the name of a file of an output: use letters, digits, '-', '_', '.'")
    return name


def incomplete_file(output: str, name: str, found: int | None, expected: int) -> CheckpointNotFound:
    """Return the error for a file that is missing or has another size than recorded."""
    state = "is missing" if found is None else f"has {found} bytes instead of {expected}"
    return CheckpointNotFound(f"output {output} was not downloaded: {name} {state}; it may be changing, try again")


def staged_files(directory: Path) -> dict[str, int]:
    """Return name and size of every file below a staged directory; raise ValueError for links and special files."""
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
    """Flush directories to disk, deepest first."""
    # Deepest first, so that no directory is durable before its contents.
    for directory in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        sync(directory)
