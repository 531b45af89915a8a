"""Directory trees: list, copy, set permissions, and flush to disk."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from determined.durable_files import sync

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)  # where a copy instead of a link would fail as well, with a less clear error


def walk(root: Path) -> Iterator[tuple[str, bool]]:
    """Yield every entry below `root` in sorted order, as (relative path with slashes, whether it is a directory).

    Links are followed; a link to a directory that contains it raises ValueError instead of looping.
    """
    yield from _walk(root, "", (os.path.realpath(root),))


def _walk(directory: Path, prefix: str, around: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Yield each path below a directory and whether it is a directory; `around` detects links that lead in a circle."""
    # Sorted, so that manifests and listings are the same on every file system.
    for name in sorted(os.listdir(directory)):
        path = directory / name
        if not path.is_dir():
            yield prefix + name, False
            continue
        real = os.path.realpath(path)
        if real in around:
            raise ValueError(f"{path} is a link to a directory that contains it")
        yield prefix + name, True
        yield from _walk(path, f"{prefix}{name}/", (*around, real))


def resources(root: Path) -> dict[str, int]:
    """Return the size of every entry below `root` by relative path; directories end in a slash and have size 0."""
    return {
        name + "/" if is_directory else name: 0 if is_directory else os.stat(root / name).st_size
        for name, is_directory in walk(root)
    }


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of a file and flush it to disk; parent directories are created."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # "x": two ranks that write the same file of a checkpoint are an error and not a race.
    with open(source, "rb") as reading, open(target, "xb") as writing:
        # Larger blocks than the default of 64 KiB, because files of checkpoints are large.
        shutil.copyfileobj(reading, writing, 1024 * 1024)
        writing.flush()
        os.fsync(writing.fileno())


def copy_atomically(source: Path, target: Path) -> None:
    """Copy a file atomically: readers, and other writers of the same target, never see a partial file."""
    draft = target.with_name(f".arriving-{secrets.token_hex(8)}")
    try:
        # Not flushed: a download that is lost in a power failure can be repeated.
        shutil.copyfile(source, draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def make_private(root: Path) -> None:
    """Remove the permissions of group and others from a tree; those of the owner are unchanged.

    A file with several hard links is not changed: another name of it may belong to the user.
    """
    for directory, _, names in os.walk(root):
        for path in (directory, *(os.path.join(directory, name) for name in names)):
            status = os.lstat(path)
            is_linked = stat.S_ISLNK(status.st_mode) or (status.st_nlink > 1 and stat.S_ISREG(status.st_mode))
            if status.st_mode & 0o077 and not is_linked:
                os.chmod(path, stat.S_IMODE(status.st_mode) & 0o700)


def copy_tree(source: Path, target: Path, *, link: bool) -> bool:
    """Recreate a tree of read-only files, by hard links if `link` is set and possible, else by writable copies.

    Returns whether a link was made.
    """
    target.mkdir()
    has_links = False
    for name, is_directory in walk(source):
        if is_directory:
            (target / name).mkdir()
        elif link and _linked(source / name, target / name):
            has_links = True
        else:
            shutil.copy2(source / name, target / name)
            # The source is a read-only snapshot, and a copy must be deletable and editable by its owner.
            os.chmod(target / name, os.stat(target / name).st_mode | 0o200)
    return has_links


def _linked(source: Path, target: Path) -> bool:
    """Create a hard link; return False across file systems and where links are unsupported or used up."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise
        return False
    return True


def make_read_only(root: Path, *, private: bool) -> None:
    """Remove write permission from every file of a tree; with `private`, also all permissions of other users."""
    for directory, _, names in os.walk(root):
        if private:
            os.chmod(directory, 0o700)
        for path in (os.path.join(directory, name) for name in names):
            os.chmod(path, os.stat(path).st_mode & (0o500 if private else 0o555))


def sync_tree(root: Path, flushed: Path | None = None) -> None:
    """Flush every file and directory of a tree to disk, deepest first.

    Hard links to files of the tree `flushed` are skipped if `flush_once` has flushed it: their content is on disk, and
    flushing the directory makes the link durable. Flushing thousands of them for every checkpoint would take seconds.
    """
    durable = set() if flushed is None else _flushed_files(flushed)
    # Bottom up: a directory is flushed after its entries.
    for directory, _, files in os.walk(root, topdown=False):
        for name in files:
            path = os.path.join(directory, name)
            # Not following links: the target of a link is not part of the tree.
            status = os.lstat(path)
            # By device and inode, which hard links have in common.
            if not stat.S_ISLNK(status.st_mode) and (status.st_dev, status.st_ino) not in durable:
                sync(path)
        sync(directory)


def flush_once(root: Path) -> None:
    """Flush a tree that no longer changes, unless that was done before."""
    marker = _flush_marker(root)
    if not marker.exists():
        sync_tree(root)
        marker.touch(mode=0o600)  # created last: a process that is killed before leaves no marker


def forget_flush(root: Path) -> None:
    """Delete the marker of `flush_once`, because another tree replaces this one."""
    _flush_marker(root).unlink(missing_ok=True)


def _flushed_files(root: Path) -> set[tuple[int, int]]:
    """Return device and inode of the files of a tree that `flush_once` has flushed."""
    if not _flush_marker(root).exists():
        return set()
    found = (os.lstat(os.path.join(directory, name)) for directory, _, names in os.walk(root) for name in names)
    return {(status.st_dev, status.st_ino) for status in found}


def _flush_marker(root: Path) -> Path:
    return root.with_name(f".{root.name}-flushed")
