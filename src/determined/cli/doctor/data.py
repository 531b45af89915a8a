"""Check where data are stored: the data directory, the store, and checkpoints."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from determined import paths
from determined.cli.display.table import size
from determined.cli.doctor.result import Result, ok, problem
from determined.errors import DeterminedError, MissingExtraError, StoreReadOnly, StoreUnavailable
from determined.sentences import counted

_LOW_DISK_SPACE = 1_000_000_000  # bytes; a few checkpoints of a small model
_SLOW = 0.5  # seconds for a write, at which reports of several trials queue up
# Network file systems, which several machines can mount and on which SQLite's locks are not reliable.
_NETWORKS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "glusterfs",
    "beegfs",
    "fuse.sshfs",
    "virtiofs",
)


def check_data() -> Iterator[Result]:
    """Check the data directory and, if it works, the store and the checkpoint storage."""
    directory = _data_directory()
    yield directory
    if directory.is_broken:
        # The others would fail for the same reason.
        return
    yield _store()
    yield _checkpoint_storage()


def _data_directory() -> Result:
    """Check that the data directory exists, is writable and is private."""
    name = "data directory"
    try:
        path = paths.data_dir()
    except OSError as error:
        advice = f"make it writable, or select another directory with {paths.DATA_DIR_VARIABLE}"
        return problem(name, f"{error.filename}: {error.strerror}", advice, needed=True)
    except DeterminedError as error:
        return problem(name, str(error), f"correct or unset {paths.DATA_DIR_VARIABLE}", needed=True)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return problem(name, f"{path} is not writable", f"chmod u+rwx {path}", needed=True)
    status = path.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        return problem(name, f"{path} can be accessed by other users", f"chmod go-rwx {path}")
    variable = paths.data_dir_variable()
    source = "" if variable is None else f" (set by {variable})"
    return ok(name, f"{path}{source}: {', '.join(paths.CONTENTS)}")


def _store() -> Result:
    """Check the store: open it and lock it for writing, as a run would; nothing is written."""
    from determined.store.databases.location import is_postgres
    from determined.store.open import checked_place, opened_database

    try:
        place = checked_place()
        with opened_database(place) as database:
            started = time.monotonic()
            # A transaction that only reads still takes the lock for writing, as a run does.
            with database.transaction():
                ((experiments,),) = database.execute("SELECT count(*) FROM experiments")
            seconds = time.monotonic() - started
    except MissingExtraError as error:
        return problem("store", str(error), "or unset DET_STORE to use a file", needed=True)
    except StoreUnavailable as error:
        advice = "check that its server runs and is not overloaded; DET_STORE selects another store"
        return problem("store", " ".join(str(error).split()), advice, needed=True)
    except StoreReadOnly as error:
        return problem(
            "store", " ".join(str(error).split()), "mount its file system writable to run experiments", needed=True
        )
    except DeterminedError as error:
        advice = "run det store check for details; DET_STORE selects another store"
        return problem("store", " ".join(str(error).split()), advice, needed=True)
    found = f"{database.place}, {counted(experiments, 'experiment')}"
    if not is_postgres(place):
        weak = _changeable_by_others(Path(place))
        if weak is not None:
            owner = "" if weak.stat().st_uid in (os.geteuid(), 0) else ", or make it your own"
            return problem("store", f"{found}; other users can write {weak}", f"chmod go-w {weak}{owner}")
        network = file_system(Path(place).parent)
        if network.startswith(_NETWORKS):
            advice = "SQLite needs a local disk: set DET_STORE to a local file or a PostgreSQL server"
            return problem("store", f"{found}, on a network ({network})", advice)
        # A commit waits for the disk, which the read above does not.
        seconds += _seconds_to_flush(Path(place).parent)
    if seconds > _SLOW:
        return problem("store", f"{found}, but a write takes {seconds:.1f} seconds", "use a faster disk or server")
    return ok("store", f"{found}, a write takes {1000 * seconds:.0f} ms")


def _checkpoint_storage() -> Result:
    """Check that the default checkpoint storage works and has free space."""
    from determined.checkpoint_storage.build import build_from_argument

    storage = build_from_argument(None)
    try:
        storage.probe()
        free = shutil.disk_usage(storage.name).free
    except (DeterminedError, OSError) as error:
        advice = "set checkpoint_storage in the configuration to another place"
        return problem("checkpoint storage", " ".join(str(error).split()), advice, needed=True)
    found = f"{storage.name}, {size(free)} free"
    if free < _LOW_DISK_SPACE:
        return problem("checkpoint storage", found, "free disk space, or set checkpoint_storage to another place")
    return ok("checkpoint storage", found)


def _seconds_to_flush(directory: Path) -> float:
    """Return how long writing and syncing a block takes, which is what a commit waits for."""
    import tempfile

    with tempfile.TemporaryFile(dir=directory) as file:
        started = time.monotonic()
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
        return time.monotonic() - started


def file_system(path: Path) -> str:
    """Return the type of the file system that a directory is on, or an empty string if it is unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    # By device, because a directory need not be a mount point itself.
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    kinds = [line.partition(" - ")[2].split()[0] for line in lines if line.split()[2] == wanted]
    return kinds[-1] if kinds else ""


def _changeable_by_others(file: Path) -> Path | None:
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
