"""Files that are complete or do not exist: written beside their place, flushed to disk, and then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: str | Path) -> None:
    """Flush a file or directory to disk."""
    # Reading is enough for fsync, and the files may be read-only.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace the content of a file that only its owner may read: readers see the old or the new content.

    With `durable` this also holds after a power failure; without it nothing waits for the disk.
    """
    draft = path.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)


def publish(draft: Path, target: Path) -> None:
    """Give a complete file, or a directory of files, its final name. Raise `FileExistsError` if the name is in use."""
    # Contents first, then the name, then the directory: after a power failure the name, if it exists, is that of
    # complete files.
    for path in [*draft.iterdir(), draft] if draft.is_dir() else [draft]:
        sync(path)
    _rename_without_replacing(draft, target)
    sync(target.parent)


def _rename_without_replacing(draft: Path, target: Path) -> None:
    """Rename a draft. A directory replaces an empty one, and a file nothing, if the file system has hard links."""
    if draft.is_dir():
        os.rename(draft, target)  # fails if the target has content
        return
    try:
        os.link(draft, target)  # fails if the target exists by now; a rename would replace it
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links, for example FAT on a memory stick
        os.rename(draft, target)
    else:
        os.unlink(draft)
