"""Copy a checkpoint to a directory, completely or not at all, without replacing anything else."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from determined.checkpoint_storage import files, object_names
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage
from determined.errors import CheckpointNotFound

_MARK = ".checkpoint.json"  # records from which checkpoint a directory was downloaded


def download_checkpoint(
    storage: CheckpointStorage, checkpoint_id: str, target: Path, resources: Mapping[str, int]
) -> None:
    """Copy a checkpoint to a directory; a complete earlier download is kept.

    An earlier download with missing or changed files is replaced, unless it contains other files. Several processes may
    download to the same target at once: each fetches a copy beside it, and the first complete copy is kept.
    """
    # Names come from the store, which an import may have filled: none may lead out of the target.
    for name in resources:
        object_names.check(name, f"checkpoint {checkpoint_id}")
    if _is_downloaded(storage, checkpoint_id, target, resources):
        return
    _refuse_foreign_files(checkpoint_id, target, resources)
    # Beside the target, so that the rename at the end stays on
    # one file system; random, since several may download at once.
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"checkpoint {checkpoint_id} was not downloaded: {target.parent.absolute()} cannot be written "
            f"({error.strerror}); name another directory",
        ) from error
    try:
        # Outside the lock: fetching takes long, and only putting the copy in place has to be exclusive.
        storage.fetch(checkpoint_id, draft)
        _refuse_missing_files(checkpoint_id, draft, resources)
        # The mark is written last: a directory with it has all its files.
        (draft / _MARK).write_text(json.dumps({"uuid": checkpoint_id}))
        with _directory_lock(target.parent):
            if not _is_downloaded(storage, checkpoint_id, target, resources):  # another process may have been faster
                _put_in_place(checkpoint_id, draft, target, resources)
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # after a successful rename nothing is left of it


def _is_downloaded(storage: CheckpointStorage, checkpoint_id: str, target: Path, resources: Mapping[str, int]) -> bool:
    """Return whether the target is a complete copy of the checkpoint in its current state."""
    is_whole = _is_copy_of(checkpoint_id, target) and _has_all_files(target, resources)
    return is_whole and _read(target / METADATA_FILE) == storage.metadata(checkpoint_id)


def _is_copy_of(checkpoint_id: str, target: Path) -> bool:
    """Return whether a directory was written by a download of this checkpoint."""
    return bool(_read(target / _MARK) == {"uuid": checkpoint_id})


def _refuse_foreign_files(checkpoint_id: str, target: Path, resources: Mapping[str, int]) -> None:
    """Raise FileExistsError if the target is a link or contains anything but a download of this checkpoint."""
    if target.is_symlink():
        raise FileExistsError(
            f"checkpoint {checkpoint_id} was not downloaded: {target} is a link to {os.readlink(target)}; name that "
            "directory itself, or another one"
        )
    if _is_copy_of(checkpoint_id, target):
        _refuse_others(checkpoint_id, target, target, resources)
    elif target.exists() and (not target.is_dir() or os.listdir(target)):
        raise _foreign_files_error(checkpoint_id, target)


def _put_in_place(checkpoint_id: str, draft: Path, target: Path, resources: Mapping[str, int]) -> None:
    """Rename the fetched copy to the target, which may hold an incomplete download."""
    _refuse_foreign_files(checkpoint_id, target, resources)
    if _is_copy_of(checkpoint_id, target):
        _exchange(checkpoint_id, draft, target, resources)
    else:
        os.replace(draft, target)  # also replaces an empty directory


@contextlib.contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory, so that only one download at a time puts its copy there."""
    # The directory itself is locked, so that no lock file is left in the user's directory.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # on a file system without locks only the renames protect the copies
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _exchange(checkpoint_id: str, draft: Path, target: Path, resources: Mapping[str, int]) -> None:
    """Replace the old copy by the new one. The old one is deleted last, and restored if anything fails."""
    # Hidden, like the draft from which the name is derived.
    aside = target.with_name(f"{draft.name}-old")
    os.rename(target, aside)
    try:
        _refuse_others(
            checkpoint_id, aside, target, resources
        )  # files may have been added while the new copy was fetched
        os.rename(draft, target)
    # BaseException: also after Ctrl-C the user must find the old copy in its place.
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside)


def _refuse_others(checkpoint_id: str, directory: Path, target: Path, resources: Mapping[str, int]) -> None:
    """Raise FileExistsError if a directory contains files that are not part of the checkpoint."""
    known = {METADATA_FILE, _MARK, *(name.rstrip("/") for name in resources)}
    # Directories above the files are part of the checkpoint too.
    known.update(str(parent) for name in list(known) for parent in PurePosixPath(name).parents)
    for root, directories, names in os.walk(directory):
        for name in (*directories, *names):
            found = (Path(root) / name).relative_to(directory).as_posix()
            if found not in known:
                raise _foreign_files_error(checkpoint_id, target, found)


def _foreign_files_error(checkpoint_id: str, target: Path, name: str | None = None) -> FileExistsError:
    """Return the error for a target directory with files that no download has written."""
    what = "" if name is None else f" ({name})"
    return FileExistsError(
        f"checkpoint {checkpoint_id} was not downloaded: {target} holds something else{what}; name another directory, "
        "or remove it"
    )


def _refuse_missing_files(checkpoint_id: str, draft: Path, resources: Mapping[str, int]) -> None:
    """Raise CheckpointNotFound if files are missing: a deletion may have begun before they were listed."""
    present = files.resources(draft)
    for name in resources:
        if name not in present:
            raise CheckpointNotFound(f"checkpoint {checkpoint_id} was not downloaded: {name} is not there any more")


def _read(path: Path) -> Any:
    """Return the content of a JSON file, or None if it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _has_all_files(target: Path, resources: Mapping[str, int]) -> bool:
    """Return whether all files and directories of a checkpoint exist, with the right sizes."""
    return all(
        _exists_with_size(target / name, None if name.endswith("/") else size) for name, size in resources.items()
    )


def _exists_with_size(path: Path, size: int | None) -> bool:
    """Return whether a file of this size exists, or a directory if `size` is None."""
    return path.is_dir() if size is None else path.is_file() and path.stat().st_size == size
