"""Copy a checkpoint to a directory: whole or not at all, and never in place of something else."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from determined.checkpoint_storage import files
from determined.checkpoint_storage.base import CheckpointStorage

_MARK = ".checkpoint-id"  # says which checkpoint a directory was downloaded from


def download_checkpoint(storage: CheckpointStorage, uuid: str, target: Path, resources: Mapping[str, int]) -> None:
    """A directory that was downloaded from the same checkpoint and has all its files is left as it is."""
    is_ours = False
    if os.path.lexists(target):
        is_ours = _mark_of(target) == uuid
        if is_ours and _has_all(target, resources):
            return
        if not is_ours and (not target.is_dir() or target.is_symlink() or os.listdir(target)):
            raise FileExistsError(
                f"checkpoint {uuid} was not downloaded: {target} holds something else; name another directory, or "
                "remove it"
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        storage.fetch(uuid, draft)
        (draft / _MARK).write_text(uuid)
        if is_ours:  # a part of it was removed or changed since
            shutil.rmtree(target)
        elif target.is_dir():
            target.rmdir()
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _mark_of(target: Path) -> str | None:
    try:
        return (target / _MARK).read_text()
    except OSError:
        return None


def _has_all(target: Path, resources: Mapping[str, int]) -> bool:
    present = files.resources(target)
    return all(present.get(name) == size for name, size in resources.items())
