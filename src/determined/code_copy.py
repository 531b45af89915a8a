"""Copy a program's directory into a checkpoint: its code, not its data, secrets or accidents."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger("determined")

MAX_BYTES = 64 * 2**20
MAX_FILES = 10_000

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_ALWAYS_LEFT_OUT = [
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
    """Copy regular files below `source` that the ignore rules leave, and say in the log what was too much.

    Hidden files, keys, links and special files are never taken, nor what `.detignore` and `.gitignore` at the top
    name, nor the files and directories `leave_out` (checkpoint storage, the store, the run's own files).
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
            if error.errno in _NO_ROOM:
                raise
            # A file that vanished or cannot be read must not cost a checkpoint.
            logger.warning("the copy of the code leaves out %s: %s", relative, error)
            continue
        copied += size
        files += 1
    if skipped:
        logger.warning(
            "a copy of the code takes up to %d MiB and %d files; left out: %s%s. "
            "Name data in .detignore to keep it out",
            MAX_BYTES // 2**20,
            MAX_FILES,
            ", ".join(skipped[:5]),
            f" and {len(skipped) - 5} more" if len(skipped) > 5 else "",
        )


def _wanted_files(source: Path, leave_out: list[Path]) -> Iterator[tuple[Path, int]]:
    from pathspec import GitIgnoreSpec

    lines = list(_ALWAYS_LEFT_OUT)
    for name in (".gitignore", ".detignore"):
        try:
            lines += (source / name).read_text(errors="replace").splitlines()
        except OSError:
            continue
    ignored = GitIgnoreSpec.from_lines(lines + _ALWAYS_LEFT_OUT)
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
    logger.warning("the copy of the code leaves out %s: %s", error.filename, error.strerror)
