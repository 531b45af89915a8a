"""Copy a model directory into a checkpoint, without hidden files, keys, links and data that exceeds the limits."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger("determined")

CODE = "code"  # the directory with the code of a run, in its run directory and in its checkpoints
MAX_BYTES = 64 * 2**20
MAX_FILES = 10_000

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

ALWAYS_LEFT_OUT = [
    ".*",
    "__pycache__/",
    "*.py[co]",
    "*.egg-info/",
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
    "/shared_fs/",
    "/runs/",
]


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
            "code copy limit (%d MiB, %d files) reached; skipped %s%s. List data files in .detignore",
            MAX_BYTES // 2**20,
            MAX_FILES,
            ", ".join(skipped[:5]),
            f" and {len(skipped) - 5} more" if len(skipped) > 5 else "",
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
    ignored = GitIgnoreSpec.from_lines([*ALWAYS_LEFT_OUT, *own, *ALWAYS_LEFT_OUT])
    forbidden = {os.path.realpath(path) for path in leave_out}

    for directory, subdirectories, names in os.walk(source, onerror=_log_unreadable):
        below = Path(directory).relative_to(source)
        subdirectories[:] = sorted(
            name
            for name in subdirectories
            if not ignored.match_file(f"{(below / name).as_posix()}/")
            and not os.path.islink(os.path.join(directory, name))
            and os.path.realpath(os.path.join(directory, name)) not in forbidden
        )
        real = os.path.realpath(directory)
        for name in sorted(names):
            relative = below / name
            if ignored.match_file(relative.as_posix()) or os.path.join(real, name) in forbidden:
                continue
            try:
                status = os.lstat(os.path.join(directory, name))
            except OSError:
                continue  # vanished
            if stat.S_ISREG(status.st_mode):
                yield relative, status.st_size


def _log_unreadable(error: OSError) -> None:
    logger.warning("code copy: skipped %s: %s", error.filename, error.strerror)
