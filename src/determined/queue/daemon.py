"""Start the daemon when there is none, so that it outlives whoever needed it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Literal

from determined.engines.job_environment import outside_of_runs
from determined.errors import DeterminedError
from determined.queue.files import QueueFiles, at_the_door, locked
from determined.queue.status import last_status

DaemonState = Literal["started", "serving", "leaving"]
IS_LEAVING = "the queue's daemon is ending; when it has ended: det queue resume"

# As `det` does, but not with the modules of the directory that it happens to be started in.
DET = "import sys; sys.path[:] = filter(None, sys.path); from determined.cli.main import main; main()"
# The daemon's parent ends at once, so that the system takes care of the daemon and nobody must wait for it.
_LEAVE_ALONE = (
    "import subprocess, sys; subprocess.Popen(sys.argv[2:], start_new_session=True, pass_fds=[int(sys.argv[1])])"
)

_SECONDS_TO_LEAVE = 10.0
_SECONDS_BETWEEN_LOOKS = 0.1


def ensure_daemon(files: QueueFiles, store_place: str) -> DaemonState:
    """To be called after an experiment was added, not before.

    The lock is taken here and handed over, so there is a daemon from this moment on, and never a second one. For one
    that was told to end, and lets trials save, we wait a while.
    """
    deadline = time.monotonic() + _SECONDS_TO_LEAVE
    while (found := _found_or_started(files, store_place)) == "leaving" and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return found


def _found_or_started(files: QueueFiles, store_place: str) -> DaemonState:
    with at_the_door(files):
        lock = locked(files)
        if lock is None:
            return "leaving" if last_status(files).leaving else "serving"
        try:
            _start(files, store_place, lock)
        finally:
            os.close(lock)
    return "started"


def _start(files: QueueFiles, store_place: str, lock: int) -> None:
    """`det queue serve`, in a session of its own: no terminal that is closed ends it."""
    daemon = [sys.executable, "-c", DET, "queue", "serve", "--lock", str(lock)]
    descriptor = os.open(files.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "ab") as log:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LEAVE_ALONE, str(lock), *daemon],
            env={**outside_of_runs(os.environ), "DET_STORE": store_place},
            cwd=files.directory,  # the caller's may be deleted
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
        )
    if done.returncode != 0:
        raise DeterminedError(f"the process that serves the queue could not be started: see {files.log}")
