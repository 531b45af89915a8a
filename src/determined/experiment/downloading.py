"""Copy a checkpoint to a directory: whole or not at all, and never in place of something else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from determined.checkpoint_storage import files
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage
from determined.errors import CheckpointNotFound

_MARK = ".checkpoint.json"  # says which checkpoint a directory was downloaded from


def download_checkpoint(storage: CheckpointStorage, uuid: str, target: Path, resources: Mapping[str, int]) -> None:
    """A directory that was downloaded from the same checkpoint and has all its files is left as it is."""
    is_ours = False
    if os.path.lexists(target):
        is_ours = _read(target / _MARK) == {"uuid": uuid}
        if is_ours and _has_all(target, resources) and _read(target / METADATA_FILE) == storage.metadata(uuid):
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
        _refuse_a_part(uuid, draft, resources)
        (draft / _MARK).write_text(json.dumps({"uuid": uuid}))
        if is_ours:  # a part of it was removed or changed since
            shutil.rmtree(target)
        elif target.is_dir():
            target.rmdir()
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


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
    present = files.resources(target)
    return all(present.get(name) == size for name, size in resources.items())
