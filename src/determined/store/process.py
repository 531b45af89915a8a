"""Identity of processes that write rows and run experiments, and whether they are still running."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from determined.machine import boot_id
from determined.store.states import EXPERIMENT_RUNNING

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.substores.overview import StoredExperiment


class Process(NamedTuple):
    """A process, distinguished by its start time from later processes with the same pid."""

    host: str
    pid: int
    started: str


def this_process() -> Process:
    """Return the identity of this process."""
    # Without /proc, as in some sandboxes, there is no start time.
    return Process(socket.gethostname(), os.getpid(), _started(os.getpid()) or "")


def is_running(process: Process) -> bool:
    """Return whether a process is running on this machine. For processes on other machines this is always False."""
    return on_this_machine(process) and _started(process.pid) == process.started


def on_this_machine(process: Process) -> bool:
    """Return whether a process belongs to this machine."""
    return process.host == socket.gethostname()


def may_be_running(process: Process) -> bool:
    """Return whether a process is running. Processes on other machines cannot be checked: they are assumed to run."""
    return is_running(process) or not on_this_machine(process)


def has_runner(experiment: Experiment | StoredExperiment) -> bool:
    """Return whether the experiment's lease is held by a live process, or by one on another host."""
    process = experiment.runner
    return process is not None and may_be_running(process)


def is_abandoned(experiment: Experiment | StoredExperiment) -> bool:
    """Return whether an experiment should be running, but its runner has exited.

    Processes on other machines cannot be checked, so they are assumed to run.
    """
    return not experiment.is_standalone and experiment.state in EXPERIMENT_RUNNING and not has_runner(experiment)


def this_user() -> str:
    """Return the name of the current user, or the numeric id if it has no name, as in containers."""
    import getpass  # imported here because it loads `termios`, which most programs never need

    try:
        return getpass.getuser()
    # KeyError up to Python 3.12, OSError since 3.13.
    except (KeyError, OSError):
        return str(os.getuid())


def _started(pid: int) -> str | None:
    """Return a text that identifies the start time of a process, or None if the process does not exist."""
    if not sys.platform.startswith("linux"):
        return _started_elsewhere(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # from the last parenthesis: the command name may contain any character
    if fields[0] in "ZX":  # a zombie has exited, only its parent has not collected it
        return None
    # The start time, field 22 of proc(5), is in ticks since boot, so the boot id is needed to distinguish processes of
    # different boots.
    return f"{boot_id()}:{fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    """Return the start time of a process on systems other than Linux, or None if it does not exist."""
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None
