"""Find out whether other users of this machine can change a file, directly or by replacing a directory above it."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def changeable_by_others(file: Path) -> Path | None:
    """Return the file or directory that lets other users change `file`, or None.

    A directory that others cannot enter protects everything in it, whatever the modes inside.
    """
    weak: Path | None = None
    for path in (file, *file.parents):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if is_directory and not status.st_mode & _others(status, stat.S_IXGRP, stat.S_IXOTH):
            return None
        # In a sticky directory such as /tmp only the owner of an entry can replace it.
        is_protected = is_directory and bool(status.st_mode & stat.S_ISVTX)
        can_write = bool(status.st_mode & _others(status, stat.S_IWGRP, stat.S_IWOTH)) and not is_protected
        if weak is None and (can_write or status.st_uid not in (os.geteuid(), 0)):
            weak = path
    return weak


def _others(status: os.stat_result, of_group: int, of_everybody: int) -> int:
    """Return the mode bits that apply to other users; those of the group only if it has members besides the owner."""
    return of_everybody | (of_group if _has_other_members(status) else 0)


def _has_other_members(status: os.stat_result) -> bool:
    """Return whether the group of a file has other members than its owner, or may have."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:  # an account that this machine does not know, so assume the worst
        return True
    is_own_group = group.gr_gid == owner.pw_gid and group.gr_name == owner.pw_name
    return not is_own_group or any(member != owner.pw_name for member in group.gr_mem)
