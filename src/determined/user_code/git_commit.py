"""Read the git commit of a program from the files of its repository, without starting git."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, or SHA-256 in newer repositories
_LARGEST = 16 * 2**20  # maximum size in bytes of files that are read, such as packed references


def git_commit(path: Path) -> str | None:
    """Return the commit checked out in the repository that contains a file or directory; None if there is none.

    Uncommitted changes are not detected, because that would require reading every file.
    """
    for directory in (path, *path.parents):
        try:
            mark = directory / ".git"
            if mark.exists():
                return _checked_out(_git_directory(mark))
        except (OSError, ValueError):  # not readable, or not a file written by git: there is no commit to record
            return None
    return None


def _git_directory(mark: Path) -> Path:
    """Return the directory with HEAD; in worktrees and submodules `.git` is a file that names it."""
    if mark.is_dir():
        return mark
    return mark.parent / _read(mark).removeprefix("gitdir:").strip()


def _checked_out(directory: Path) -> str | None:
    """Return the commit of HEAD, resolving a branch by its file or by the packed references."""
    head = _read(directory / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else None
    reference = head.removeprefix("ref:").strip()
    # The file is not trusted: a reference must not lead out of the repository.
    if ".." in reference or reference.startswith("/"):
        return None
    common = directory / "commondir"  # exists in a worktree: branches are stored in the main repository
    places = [directory, directory / _read(common).strip()] if common.is_file() else [directory]
    for place in places:
        if (place / reference).is_file():
            commit = _read(place / reference).strip()
            return commit if _COMMIT.fullmatch(commit) else None
        packed = place / "packed-refs"
        if packed.is_file():
            for line in _read(packed).splitlines():
                commit, _, name = line.partition(" ")
                if name == reference and _COMMIT.fullmatch(commit):
                    return commit
    return None


def _read(path: Path) -> str:
    """Return the text of a file; raise ValueError if it is too large."""
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"{path} is too large")
    return path.read_text(encoding="utf-8")
