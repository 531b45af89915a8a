"""Which process wrote a row, whether it still lives, and which program it ran."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Process:
    """A process, not to be mistaken for a later one with the same number."""

    host: str
    pid: int
    started: str


def this_process() -> Process:
    return Process(socket.gethostname(), os.getpid(), _started(os.getpid()) or "")


def is_running(process: Process) -> bool:
    """Whether it lives on this machine now; of other machines nothing is known, so the answer is no."""
    return on_this_machine(process) and _started(process.pid) == process.started


def on_this_machine(process: Process) -> bool:
    return process.host == socket.gethostname()


def this_user() -> str:
    """Who runs this process; the number of one whom the system does not know by name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def this_program() -> str:
    """What tells two programs apart: the file that was started, or the directory for those without one."""
    script = sys.argv[0] if sys.argv else ""
    path = Path(script).resolve()
    if path.is_file() and not path.is_relative_to(_PACKAGE):
        return str(path)
    # Programs run by a launcher of ours, by `python -c` or in a notebook are told apart by where they run.
    return f"{Path.cwd()}{os.sep}[{path.name}]"


def _started(pid: int) -> str | None:
    """When the process began, in a form that is good for comparing; None when there is no such process."""
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
