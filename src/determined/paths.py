"""The directories and files of this library on this machine."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from determined.errors import InvalidConfigurationException

DATA_DIR_VARIABLE = "DET_DATA_DIR"

RELAY = "relay:"
"""What DET_STORE begins with in a worker on another machine than its store; the path of a socket follows."""

CONTENTS = {
    "store.sqlite": "the store: experiments, trials, metrics, logs and checkpoints as rows",
    "checkpoints": "checkpoints and outputs of batch inference, one directory each",
    "experiments": "one directory per search: code, configuration, working directories of trials, runner log",
    "runs": "one directory per attempt: the code copy of standalone runs, TensorBoard files",
    "queue": "lock, status and log of the queue daemon",
    "imports": "notes about imports of experiments that are under way",
    "curves.sqlite": "a cache of curves and statistics for charts, which can be deleted",
    "cloud": "checkpoints on their way to or from an object store",
}
"""What lies in the data directory, by name."""


def data_dir() -> Path:
    """Return the user's data directory, created for the owner only. The environment is read at each call."""
    path = data_dir_path()
    # Mode 0700, because checkpoints and logs may contain private data.
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def data_dir_path() -> Path:
    """Return the path of the user's data directory, which may not exist."""
    return _named_data_dir() or _base() / "determined"


def data_dir_variable() -> str | None:
    """Return the environment variable that determines the data directory; None if it is the default."""
    if os.environ.get(DATA_DIR_VARIABLE):
        return DATA_DIR_VARIABLE
    return "XDG_DATA_HOME" if os.path.isabs(os.environ.get("XDG_DATA_HOME", "")) else None


def checkpoints_dir() -> Path:
    """Return the default directory for checkpoints of searches and standalone runs."""
    return data_dir() / "checkpoints"


def experiments_dir() -> Path:
    """Return the directory that contains one directory per search, with its code and configuration."""
    return data_dir() / "experiments"


def runs_dir() -> Path:
    """Return the directory that contains one directory per attempt of a trial."""
    # Set for trials on the nodes of a cluster, whose TensorBoard files are copied to the runner's machine.
    given = os.environ.get("DET_RUNS_DIR")
    return Path(given) if given else data_dir() / "runs"


def local_run_dir(run_dir: Path) -> Path:
    """Return the directory of a run on this machine, from that of its chief, which may be on another machine."""
    return runs_dir() / run_dir.name if os.environ.get("DET_RUNS_DIR") else run_dir


def recorded_run_dir(run_dir: Path) -> Path:
    """Return the directory of a run as the store records it: for a node of a cluster, that of the runner's machine."""
    recorded = os.environ.get("DET_RECORDED_RUNS_DIR")
    return Path(recorded) / run_dir.name if recorded else run_dir


def queue_dir() -> Path:
    """Return the directory for files of the queue daemons of this user's stores."""
    return data_dir() / "queue"


def imports_dir() -> Path:
    """Return the directory for notes about running imports of experiments."""
    return data_dir() / "imports"


def cloud_dir() -> Path:
    """Return the directory in which checkpoints of object stores are prepared and read."""
    return data_dir() / "cloud"


def made_private(path: Path) -> Path:
    """Create a subdirectory of the data directory for the owner only, and return it.

    An existing one that other users may read is restricted to the owner.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    # An earlier release created some that others could read.
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        path.chmod(0o700)
    return path


def state_dir() -> Path:
    """Return the directory for state shared by all stores of a user on this machine, created for the owner only."""
    # Separate from the data: state is of this machine, and the data directory may be on a shared file system.
    home = os.environ.get("XDG_STATE_HOME", "")
    path = (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "determined"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def in_data_dir(path: Path) -> bool:
    """Return whether a path is the data directory or below it, and so private to the user."""
    # Both resolved, because either may be reached through a link.
    return path.resolve().is_relative_to(data_dir().resolve())


def are_private(places: Iterable[Path]) -> bool:
    """Return whether files in these directories are private to the user; elsewhere a team may share them."""
    return all(map(in_data_dir, places))


def new_run_dir() -> Path:
    """Create and return the directory of a run. Its name is never a UUID, so it cannot be mistaken for a checkpoint."""
    # Readable and sortable for users; process id and random part keep runs of one second apart.
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}-{secrets.token_hex(3)}"
    path = made_private(runs_dir()) / name
    path.mkdir(mode=0o700)
    return path


def store_place() -> str:
    """Return the location of the store: DET_STORE, or else a file in the data directory."""
    return os.environ.get("DET_STORE") or str(data_dir() / "store.sqlite")


def store_files() -> list[Path]:
    """Return the files of a file-based store. Only SQLite may open them, because its locks would be lost otherwise."""
    place = store_place()
    # A URL is a server, which has no files here, and what is behind a relay is on another machine.
    if "://" in place or place.startswith(RELAY):
        return []
    return [Path(place + ending).expanduser() for ending in ("", "-wal", "-shm")]


def _named_data_dir() -> Path | None:
    """Return the directory that DET_DATA_DIR names, or None.

    A relative path raises InvalidConfigurationException: every working directory would have separate data.
    """
    named = os.environ.get(DATA_DIR_VARIABLE, "")
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_absolute() or "\0" in named:
        raise InvalidConfigurationException(
            message=f"{DATA_DIR_VARIABLE} must be an absolute path, got {named!r}: for example $PWD/{named}"
        )
    return path


def _base() -> Path:
    """Return the directory for user data of this operating system."""
    home = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(home):  # the XDG standard requires that a relative path is ignored
        return Path(home)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".local" / "share"
