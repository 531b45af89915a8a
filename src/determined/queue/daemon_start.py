"""Start the queue daemon as a process that outlives the command that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Literal

from determined.engines.job_environment import without_run_variables
from determined.errors import DeterminedError
from determined.queue.files import QueueFiles, daemon_start_lock, take_daemon_lock
from determined.queue.status import last_status

DaemonState = Literal["started", "serving", "shutting down"]
SHUTTING_DOWN = "the queue daemon is shutting down; when it has exited, run: det queue resume"

# Like the `det` command, but without the working directory on sys.path, whose modules could shadow installed ones.
DET = "import sys; sys.path[:] = filter(None, sys.path); from determined.cli.main import main; main()"
# Double fork: the intermediate process exits at once, so that init adopts the daemon and reaps it. As a child of the
# command, the daemon would stay a zombie until the command waits for it.
_DOUBLE_FORK = (
    "import subprocess, sys; subprocess.Popen(sys.argv[2:], start_new_session=True, pass_fds=[int(sys.argv[1])])"
)

_SECONDS_TO_SHUT_DOWN = 10.0  # time for a daemon without trials to exit; with trials, the user is informed
_SECONDS_BETWEEN_POLLS = 0.1


def ensure_daemon(files: QueueFiles, store_place: str) -> DaemonState:
    """Start the daemon if there is none, and return its state. Call this after an experiment was added, not before.

    This process takes the daemon's lock and passes it on, so that from this moment there is exactly one daemon. A
    daemon that is shutting down is waited for a while.
    """
    deadline = time.monotonic() + _SECONDS_TO_SHUT_DOWN
    # Only a daemon without trials exits within this time; with trials the caller informs the user.
    while (found := _found_or_started(files, store_place)) == "shutting down" and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_POLLS)
    return found


def _found_or_started(files: QueueFiles, store_place: str) -> DaemonState:
    """Return the state of the running daemon, or start one."""
    # Looking for a daemon and starting one are one step, so that two commands cannot start two.
    with daemon_start_lock(files):
        lock = take_daemon_lock(files)
        if lock is None:
            return "shutting down" if last_status(files).leaving else "serving"
        try:
            _start(files, store_place, lock)
        finally:
            # The daemon has inherited the descriptor and with it the
            # lock, which stays locked as long as any copy is open.
            os.close(lock)
    return "started"


def _start(files: QueueFiles, store_place: str, lock: int) -> None:
    """Start `det queue serve` in a separate session, so that closing a terminal does not end it."""
    daemon = [sys.executable, "-c", DET, "queue", "serve", "--lock", str(lock)]
    # Readable as well, because the daemon shortens its own log.
    descriptor = os.open(files.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "ab") as log:
        done = subprocess.run(
            # Isolated and without site: this process only starts another one, and should do it fast.
            [sys.executable, "-I", "-S", "-c", _DOUBLE_FORK, str(lock), *daemon],
            # A daemon that is started inside a trial must not pass the trial's variables to its runners.
            env={**without_run_variables(os.environ), "DET_STORE": store_place},
            cwd=files.directory,  # the caller's working directory may be deleted while the daemon runs
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
        )
    if done.returncode != 0:
        raise DeterminedError(f"the queue daemon could not be started: see {files.log}")
