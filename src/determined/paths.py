"""Where data lie on this machine."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def data_dir() -> Path:
    """The user's data directory, created for the owner only; the environment is read at each call."""
    path = _base() / "determined"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def data_subdir(name: str) -> Path:
    """A directory in the data directory, created for the owner only; one that others may read is closed to them."""
    path = data_dir() / name
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():  # an earlier release made some for everybody
        path.chmod(0o700)
    return path


def in_data_dir(path: Path) -> bool:
    """Whether a path is the data directory or lies in it: what is there belongs to the user alone."""
    return path.resolve().is_relative_to(data_dir().resolve())


def are_private(places: Iterable[Path]) -> bool:
    """Whether files in these directories are for the user alone: elsewhere a team may share them."""
    return all(map(in_data_dir, places))


def new_run_dir() -> Path:
    """A fresh directory for one run; its name is never a UUID, so no run can be taken for a checkpoint."""
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}-{secrets.token_hex(3)}"
    path = data_subdir("runs") / name
    path.mkdir(mode=0o700)
    return path


def store_place() -> str:
    """Where the records of runs are kept: what DET_STORE names, else a file in the data directory."""
    return os.environ.get("DET_STORE") or str(data_dir() / "store.sqlite")


def store_files() -> list[Path]:
    """What belongs to a store in a file; nothing may be opened there but by SQLite, whose locks would be lost."""
    place = store_place()
    return [] if "://" in place else [Path(place + ending).expanduser() for ending in ("", "-wal", "-shm")]


def _base() -> Path:
    home = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(home):  # the XDG standard: a relative path is to be ignored
        return Path(home)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".local" / "share"
