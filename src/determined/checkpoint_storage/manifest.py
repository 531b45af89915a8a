"""The manifest of a checkpoint: sizes and hashes of its files, with which damage is detected before loading."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from determined.checkpoint_storage import files
from determined.checkpoint_storage.base import Selector
from determined.errors import InvalidCheckpointException

MANIFEST_FILE = "manifest.json"
_CHUNK = 1 << 20


def write(directory: Path, known: Mapping[str, str] | None = None, origin: Mapping[str, Any] | None = None) -> None:
    """Write the manifest of all files below `directory`, and the origin of the checkpoint.

    `known` holds hashes that were computed while the files were written.
    """
    digests = known or {}
    entries = {
        # Hashed while writing if possible: otherwise every checkpoint would be read once more from the disk.
        name: {"size": os.stat(directory / name).st_size, "sha256": digests.get(name) or _digest(directory / name)}
        for name, is_directory in files.walk(directory)
        if not is_directory and name != MANIFEST_FILE
    }
    (directory / MANIFEST_FILE).write_text(_render(entries, origin), encoding="utf-8")


def with_changed(directory: Path, name: str, changed: Mapping[str, bytes]) -> bytes:
    """Return the manifest of a checkpoint after these files get new content."""
    entries, known_origin = _read(directory, name)
    for path, content in changed.items():
        entries[path] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return _render(entries, known_origin).encode()


def origin(directory: Path, name: str) -> Any:
    """Return the origin that the manifest records, or None."""
    return _read(directory, name)[1]


def exists(directory: Path) -> bool:
    """Return whether a directory contains a manifest."""
    return os.path.lexists(directory / MANIFEST_FILE)


def verify(directory: Path, name: str, wanted: Selector | None = None) -> None:
    """Compare every file, or the wanted ones, with the manifest.

    Raises InvalidCheckpointException for the first difference. Additional files are ignored.
    """
    for path, entry in _read(directory, name)[0].items():
        if wanted is not None and not wanted(path):
            continue
        file = directory / path
        try:
            status = os.stat(file)
            # A link out of the checkpoint could have been put there by another user.
            if not stat.S_ISREG(status.st_mode) or not file.resolve().is_relative_to(directory.resolve()):
                raise _damaged(name, f"{path} is not a regular file inside the checkpoint")
            size = status.st_size
            # The size first: a truncated file is recognized without reading it.
            if size != entry["size"]:
                raise _damaged(name, f"{path} has {size} bytes instead of {entry['size']}")
            if _digest(file) != entry["sha256"]:
                raise _damaged(name, f"the content of {path} was changed")
        except FileNotFoundError:
            raise _damaged(name, f"{path} is missing") from None
        except OSError as error:
            raise _damaged(name, f"{path} cannot be read: {error.strerror}") from error


def _read(directory: Path, name: str) -> tuple[dict[str, dict[str, Any]], Any]:
    """Return files and origin of a manifest; raise InvalidCheckpointException if it was changed or cannot be read."""
    try:
        text = (directory / MANIFEST_FILE).read_bytes().decode("utf-8")
        content = json.loads(text)
        entries, known_origin = content["files"], content.get("origin")
        # The text must be exactly what this library writes, so that a single changed character is noticed.
        whole = text == _render(entries, known_origin) and all(
            _is_entry(path, entry) for path, entry in entries.items()
        )
    except FileNotFoundError:
        raise _damaged(name, f"{MANIFEST_FILE} is missing") from None
    # A damaged file may be any JSON or none: a list, a number, or nested deeper than Python's stack.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(name, f"{MANIFEST_FILE} cannot be read: {type(error).__name__}: {error}") from error
    if not whole:
        raise _damaged(name, f"the content of {MANIFEST_FILE} was changed")
    checked: dict[str, dict[str, Any]] = entries
    return checked, known_origin


def _is_entry(path: str, entry: Any) -> bool:
    """Return whether an entry has a relative path that stays inside the checkpoint, a size and a hash."""
    parts = PurePosixPath(path).parts
    inside = bool(parts) and not PurePosixPath(path).is_absolute() and ".." not in parts
    return inside and isinstance(entry, dict) and entry.keys() == {"size", "sha256"}


def _damaged(name: str, what: str) -> InvalidCheckpointException:
    return InvalidCheckpointException(f"checkpoint {name} is damaged: {what}")


def _digest(file: Path) -> str:
    """Return the hash of the content of a file."""
    digest = hashlib.sha256()
    # Unbuffered, because chunks of this size gain nothing from another copy.
    with open(file, "rb", buffering=0) as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _render(entries: Any, known_origin: Any = None) -> str:
    """Return the manifest as text. It ends with a hash of itself, so that any change of it is detected."""
    content = {"files": entries} if known_origin is None else {"files": entries, "origin": known_origin}
    # Without an origin the hash covers the entries alone, as in older checkpoints.
    hashed = entries if known_origin is None else content
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=1)
