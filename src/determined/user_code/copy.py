"""Copy a model directory without hidden files, keys, links and data that exceeds the limits; read ignore files."""

from __future__ import annotations

import errno
import fnmatch
import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from determined.sentences import first_few

logger = logging.getLogger("determined")

CODE = "code"  # the directory with the code of a run, in its run directory and in its checkpoints
# Code has kilobytes; larger files are data, and each experiment and checkpoint would copy them.
MAX_BYTES = 64 * 2**20
MAX_FILES = 10_000  # a directory with more is a data set

# Running out of space ends the copy; other errors concern a single file.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Names of files and directories, and of directories only, that are never copied: ignore files cannot include them.
LEFT_OUT_NAMES = (
    ".*",
    "*.py[co]",
    "*.tfstate*",
    "*.tfvars",
    "*.[pP][eE][mM]",
    "*.[kK][eE][yY]",
    "*.[pP]12",
    "*.[pP][fF][xX]",
    "*.[pP][pP][kK]",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*credentials*.json",
)
LEFT_OUT_DIRECTORIES = ("__pycache__", "*.egg-info")
_LEFT_OUT_AT_THE_TOP = ("shared_fs/", "runs/")


def left_out(names: Iterable[str], directories: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a file or directory is left out because of its name.

    Its argument is a path relative to the top, with `/` at the end of a directory. The directories above it must
    have been checked before. A few patterns of names need no `pathspec`, whose import would take longer than all else
    that is done with the code of a small program.
    """
    is_left_out, is_left_out_directory = _any_of(names), _any_of(directories)

    def check(relative: str) -> bool:
        path = relative.removesuffix("/")
        name = path[path.rfind("/") + 1 :]
        if is_left_out(name):
            return True
        return path != relative and (relative in _LEFT_OUT_AT_THE_TOP or is_left_out_directory(name))

    return check


def _any_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    # One pattern for all names: a directory may have thousands of files.
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None


def copy_code(source: Path, target: Path, leave_out: list[Path]) -> None:
    """Copy the regular files below `source` that the ignore rules allow; log a warning if the limits are exceeded.

    Hidden files, keys, links and special files are never copied, nor what `.detignore` and `.gitignore` at the top
    exclude, nor the files and directories in `leave_out` (checkpoint storage, the store, the run's own files).
    """
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(0o755)
    skipped: list[str] = []
    copied = files = 0
    for relative, size in _wanted_files(source, [*leave_out, target]):
        if copied + size > MAX_BYTES or files >= MAX_FILES:
            skipped.append(os.fsdecode(relative))
            continue
        try:
            destination = target / relative
            destination.parent.mkdir(parents=True, exist_ok=True)
            # With its time and mode: a script may be executable.
            shutil.copy2(source / relative, destination, follow_symlinks=False)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            # A file that was deleted or cannot be read must not prevent a checkpoint.
            logger.warning("code copy: skipped %s: %s", relative, error)
            continue
        copied += size
        files += 1
    if skipped:
        logger.warning(
            "code copy limit (%d MiB, %d files) reached; skipped %s. List data files in .detignore",
            MAX_BYTES // 2**20,
            MAX_FILES,
            first_few(skipped, 5),
        )


def read_ignore_file(path: Path) -> list[str]:
    """Return the lines of an ignore file; empty if there is no such file."""
    try:
        # Regular files only: opening a pipe of that name would block forever.
        return path.read_text(errors="replace").splitlines() if path.is_file() else []
    except OSError:
        return []


def _wanted_files(source: Path, leave_out: list[Path]) -> Iterator[tuple[Path, int]]:
    """Yield the relative path and size of each file to copy."""
    from pathspec import GitIgnoreSpec

    own = [line for name in (".gitignore", ".detignore") for line in read_ignore_file(source / name)]
    ignored = GitIgnoreSpec.from_lines(own)
    never = left_out(LEFT_OUT_NAMES, LEFT_OUT_DIRECTORIES)

    def is_excluded(relative: str) -> bool:
        return never(relative) or ignored.match_file(relative)

    # Real paths, because the storage may be reached through a link.
    forbidden = {os.path.realpath(path) for path in leave_out}

    for directory, subdirectories, names in os.walk(source, onerror=_log_unreadable):
        below = Path(directory).relative_to(source)
        # In place, which makes `os.walk` skip the others.
        subdirectories[:] = sorted(
            name
            for name in subdirectories
            if not is_excluded(f"{(below / name).as_posix()}/")
            and not os.path.islink(os.path.join(directory, name))
            and os.path.realpath(os.path.join(directory, name)) not in forbidden
        )
        real = os.path.realpath(directory)
        for name in sorted(names):
            relative = below / name
            if is_excluded(relative.as_posix()) or os.path.join(real, name) in forbidden:
                continue
            try:
                status = os.lstat(os.path.join(directory, name))
            except OSError:
                continue  # vanished
            if stat.S_ISREG(status.st_mode):
                yield relative, status.st_size


def _log_unreadable(error: OSError) -> None:
    logger.warning("code copy: skipped %s: %s", error.filename, error.strerror)
