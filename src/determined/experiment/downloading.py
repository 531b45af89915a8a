"""Copy a checkpoint to a directory: whole or not at all, and never in place of something else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from determined.checkpoint_storage import files, object_names
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage
from determined.errors import CheckpointNotFound

_MARK = ".checkpoint.json"  # says which checkpoint a directory was downloaded from


def download_checkpoint(storage: CheckpointStorage, uuid: str, target: Path, resources: Mapping[str, int]) -> None:
    """A directory that was downloaded from the same checkpoint and has all its files is left as it is.

    One where a part is missing or changed is replaced, unless there are other files in it.
    """
    for name in resources:
        object_names.check(name, f"checkpoint {uuid}")
    is_ours = _read(target / _MARK) == {"uuid": uuid}
    if is_ours and _has_all(target, resources) and _read(target / METADATA_FILE) == storage.metadata(uuid):
        return
    if target.is_symlink():
        raise FileExistsError(
            f"checkpoint {uuid} was not downloaded: {target} is a link to {os.readlink(target)}; name that directory "
            "itself, or another one"
        )
    if is_ours:
        _refuse_others(uuid, target, target, resources)
    elif target.exists() and (not target.is_dir() or os.listdir(target)):
        raise _holds_something_else(uuid, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        storage.fetch(uuid, draft)
        _refuse_a_part(uuid, draft, resources)
        (draft / _MARK).write_text(json.dumps({"uuid": uuid}))
        if is_ours:
            _exchange(uuid, draft, target, resources)
        else:
            os.replace(draft, target)  # also in place of an empty directory
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _exchange(uuid: str, draft: Path, target: Path, resources: Mapping[str, int]) -> None:
    """Put the new copy in place of the old one, which is removed last and comes back when anything fails."""
    aside = target.with_name(f"{draft.name}-old")
    os.rename(target, aside)
    try:
        _refuse_others(uuid, aside, target, resources)  # files may have come while the new copy was fetched
        os.rename(draft, target)
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside)


def _refuse_others(uuid: str, directory: Path, target: Path, resources: Mapping[str, int]) -> None:
    known = {METADATA_FILE, _MARK, *(name.rstrip("/") for name in resources)}
    known.update(str(parent) for name in list(known) for parent in PurePosixPath(name).parents)
    for root, directories, names in os.walk(directory):
        for name in (*directories, *names):
            found = (Path(root) / name).relative_to(directory).as_posix()
            if found not in known:
                raise _holds_something_else(uuid, target, found)


def _holds_something_else(uuid: str, target: Path, name: str | None = None) -> FileExistsError:
    what = "" if name is None else f" ({name})"
    return FileExistsError(
        f"checkpoint {uuid} was not downloaded: {target} holds something else{what}; name another directory, or "
        "remove it"
    )


def _refuse_a_part(uuid: str, draft: Path, resources: Mapping[str, int]) -> None:
    """Somebody may have begun to remove it before its files were listed."""
    present = files.resources(draft)
    for name in resources:
        if name not in present:
            raise CheckpointNotFound(f"checkpoint {uuid} was not downloaded: {name} is not there any more")


def _read(path: Path) -> Any:
    """What a JSON file says; None if there is none that can be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _has_all(target: Path, resources: Mapping[str, int]) -> bool:
    return all(_has(target / name, None if name.endswith("/") else size) for name, size in resources.items())


def _has(path: Path, size: int | None) -> bool:
    return path.is_dir() if size is None else path.is_file() and path.stat().st_size == size
