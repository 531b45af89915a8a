"""Which process wrote a row, whose it is, and whether it still runs."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process, distinguished from later ones with the same number by the time it started."""

    host: str
    pid: int
    started: str


def this_process() -> Process:
    """Return this process."""
    return Process(socket.gethostname(), os.getpid(), _started(os.getpid()) or "")


def is_running(process: Process) -> bool:
    """Whether it runs on this machine now; nothing is known about other machines, so the answer there is no."""
    return on_this_machine(process) and _started(process.pid) == process.started


def on_this_machine(process: Process) -> bool:
    return process.host == socket.gethostname()


def this_user() -> str:
    """Return the name of the user who runs this process, or the number of one without a name, as in containers."""
    import getpass  # here, because it loads what controls terminals, which most programs never need

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _started(pid: int) -> str | None:
    """Return a text that identifies when the process started, or None when there is no such process."""
    if not sys.platform.startswith("linux"):
        return _started_elsewhere(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    if fields[0] in "ZX":  # dead, and only not yet collected by its parent
        return None
    # Ticks since the machine started, so two starts of the machine must be told apart as well.
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}:{fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None
