"""Read the Python stack of another rank on the same machine that does not respond.

Each rank registers a signal handler (in C, by faulthandler) that writes its stack into an anonymous memory file, and
publishes its process id and the file's descriptor. Another process sends the signal and reads the memory file through
/proc. This leaves no files behind and works while the rank is inside a system call or a collective.
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

# A real-time signal, because programs handle SIGUSR1 and SIGUSR2 themselves.
_SIGNAL = signal.SIGRTMIN + 6 if sys.platform == "linux" else None
# The process may be stuck in the kernel, where it cannot run the handler.
_SECONDS_FOR_AN_ANSWER = 2.0  # the answer takes milliseconds unless the process is stuck
_MOST_LINES = 15  # the innermost calls, which show where the process waits

_memory: int | None = None  # the memory file into which this process writes its stack


def address() -> str:
    """Register the signal handler and return the data with which another process can ask for this process's stack."""
    global _memory
    if _SIGNAL is not None and _memory is None:
        _memory = os.memfd_create("determined-stack")
        # Only the thread that receives the signal, which is the main thread: faulthandler would read the frames of
        # running threads while they change, which can end the process.
        faulthandler.register(_SIGNAL, file=_memory, all_threads=False)
    return json.dumps({"process": this_process()._asdict(), "memory": _memory})


def describe(where: str) -> str:
    """Return what is known about the process with this address, including its stack if it responds."""
    known = json.loads(where)
    process, memory = Process(**known["process"]), known["memory"]
    name = f"process {process.pid} on {process.host}"
    # Another machine's processes cannot be asked by a signal.
    if process.host != socket.gethostname() or _SIGNAL is None:
        return name
    if not is_running(process):
        return f"{name} is dead"
    # A stopped process would run the handler only after SIGCONT.
    if _is_stopped(process.pid):
        return f"{name} is stopped"
    stack = _ask(process.pid, memory)
    return f"{name} is alive, and was here:\n{stack}" if stack else f"{name} is alive"


def _ask(pid: int, memory: int) -> str:
    """Return the stack of the process's main thread, or an empty text if it does not respond."""
    assert _SIGNAL is not None
    path = f"/proc/{pid}/fd/{memory}"
    with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
        # The memory file keeps the stacks of earlier requests, so only what is added counts.
        seen = before = os.stat(path).st_size
        os.kill(pid, _SIGNAL)
        deadline = time.monotonic() + _SECONDS_FOR_AN_ANSWER
        while time.monotonic() < deadline:
            time.sleep(0.05)  # a stack is written within milliseconds
            size = os.stat(path).st_size
            if size > before and size == seen:
                break  # the stack is complete: nothing was added since the last look
            seen = size
        with open(path, errors="replace") as file:
            file.seek(before)
            return "\n".join(file.read().splitlines()[1 : _MOST_LINES + 1])  # without the heading
    return ""


def _is_stopped(pid: int) -> bool:
    """Return whether the process was stopped by a signal such as SIGSTOP."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    return False
