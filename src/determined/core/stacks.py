"""Where a rank that does not answer is: its Python stack, asked for by another process of the same machine.

A rank writes its stack into a piece of memory when it gets a certain signal, and tells others its process and the
number of that piece; they send the signal and read it through /proc. There are no files to clean up. The stack is
written by a handler in C: it works while the rank is inside a system call or a collective.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import sys
import time

from determined.store.process import Process, is_running, this_process

_SIGNAL = signal.SIGRTMIN + 6 if sys.platform == "linux" else None
_SECONDS_FOR_AN_ANSWER = 2.0
_MOST_LINES = 15

_memory: int | None = None  # what this process writes its stack into


def address() -> str:
    """What another process needs to ask this one; from now on it answers."""
    global _memory
    if _SIGNAL is not None and _memory is None:
        _memory = os.memfd_create("determined-stack")
        faulthandler.register(_SIGNAL, file=_memory, all_threads=True)
    return json.dumps({"process": this_process()._asdict(), "memory": _memory})


def describe(where: str) -> str:
    """What can be told about the process with that address."""
    known = json.loads(where)
    process, memory = Process(**known["process"]), known["memory"]
    name = f"process {process.pid} on {process.host}"
    if process.host != socket.gethostname() or _SIGNAL is None:
        return name
    if not is_running(process):
        return f"{name} is dead"
    if _is_stopped(process.pid):
        return f"{name} is stopped"
    stack = _ask(process.pid, memory)
    return f"{name} is alive, and was here:\n{stack}" if stack else f"{name} is alive"


def _ask(pid: int, memory: int) -> str:
    """The stack of its main thread; empty when there is no answer."""
    assert _SIGNAL is not None
    path = f"/proc/{pid}/fd/{memory}"
    with contextlib.suppress(OSError):  # it died just now, or is another user's
        seen = before = os.stat(path).st_size
        os.kill(pid, _SIGNAL)
        deadline = time.monotonic() + _SECONDS_FOR_AN_ANSWER
        while time.monotonic() < deadline:
            time.sleep(0.05)
            size = os.stat(path).st_size
            if size > before and size == seen:
                break  # nothing more has come in the meantime
            seen = size
        with open(path, errors="replace") as file:
            file.seek(before)
            threads = file.read().strip().split("\n\n")
        return "\n".join(threads[-1].splitlines()[1 : _MOST_LINES + 1])  # the main thread comes last
    return ""


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    return False
