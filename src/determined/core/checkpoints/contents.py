"""The contents of a checkpoint: its files, its metadata, and the descriptions that this library adds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from determined.checkpoint_storage import files, manifest
from determined.checkpoint_storage.base import METADATA_FILE, Selector
from determined.core.jsonable import to_jsonable


def write_descriptions(
    staged: Path, metadata: dict[str, Any], origin: dict[str, Any] | None, digests: Mapping[str, str] | None = None
) -> None:
    """Write the metadata file, and a manifest if the origin is given."""
    # Not synced here: the caller syncs the complete directory before it becomes visible.
    (staged / METADATA_FILE).write_text(json.dumps(metadata, indent=2))
    if origin is not None:
        manifest.write(staged, digests, origin)


def jsonable_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as JSON-compatible data; raise TypeError if that is impossible."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise TypeError(f"checkpoint metadata must be a dict, got {metadata!r}")
    kept: dict[str, Any] = to_jsonable(metadata, "checkpoint metadata")
    return kept


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as JSON-compatible data; raise if `steps_completed` is missing or not an integer."""
    kept = jsonable_metadata(metadata)
    if "steps_completed" not in kept:
        raise ValueError("the checkpoint metadata lacks steps_completed: pass metadata={'steps_completed': <int>, ...}")
    steps = kept["steps_completed"]
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"steps_completed in the checkpoint metadata must be an int, got {steps!r}")
    return kept


def checked_directory(ckpt_dir: str | os.PathLike[str]) -> Path:
    """Return the directory as a path; raise NotADirectoryError if it is none."""
    path = Path(ckpt_dir)
    if not path.is_dir():
        raise NotADirectoryError(f"the checkpoint directory ckpt_dir {str(path)!r} is not a directory")
    return path


def selected_files(source: Path, selector: Selector | None) -> list[str]:
    """Return the selected paths of a directory, without the metadata file, which this library writes."""
    names = [name + "/" if is_directory else name for name, is_directory in files.walk(source)]
    # The metadata file of a downloaded checkpoint would otherwise replace that of the new one.
    return [name for name in names if name != METADATA_FILE and (selector is None or selector(name))]


def copy_files(source: Path, target: Path, names: list[str]) -> None:
    """Copy these paths from one directory to another; names of directories end in a slash."""
    for name in names:
        if name.endswith("/"):
            (target / name).mkdir(parents=True, exist_ok=True)
        else:
            files.copy_file(source / name, target / name)


def digest(path: Path) -> str:
    """Return the MD5 of a file. It only tells whether ranks have the same file; it protects nothing."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()
