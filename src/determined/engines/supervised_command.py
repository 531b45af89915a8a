"""Run one command such that none of its processes outlives it or the process that started it.

`supervised()` starts a supervising child process, which is the subreaper of the command, so that daemons which left the
command's session are found as well. It kills all of them when the command ends, when it receives SIGTERM, and when its
parent ends (also by SIGKILL). The command, its environment and its directory arrive as JSON on standard input: they may
contain secrets, which a command line would show to every user of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from determined.engines.processes import tree
from determined.kernel import become_subreaper, signal_when_parent_ends

_SECONDS_TO_DIE = 2.0  # a killed process that still exists after this waits for a device in the kernel

# Without the empty entry of sys.path: modules in the current directory must not shadow those that the supervising
# process imports.
_PROGRAM = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from determined.engines.supervised_command import main
main({parent}, {files!r})
"""


def supervised(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path, *, output: int, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command with its output on the file descriptor `output`.

    The returned process has the command's exit code.
    """
    program = _PROGRAM.format(parent=os.getpid(), files=tuple(keep_open))
    process = subprocess.Popen(
        # A new interpreter and not a fork: this process may have threads.
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=tuple(keep_open),
        start_new_session=True,  # Ctrl-C in the terminal reaches only the starting process, which then ends this one
    )
    request = {"argv": list(argv), "environment": dict(environment), "directory": str(directory)}
    assert process.stdin is not None
    # It may have failed to start; its exit code tells.
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(request).encode())
    return process


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Terminate a supervised command and wait until all its processes have ended."""
    if process.poll() is None:
        process.terminate()
        try:
            # Twice the time that it takes at most to kill its descendants.
            process.wait(2 * _SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(parent: int, files: tuple[int, ...]) -> NoReturn:
    """Run the command described on standard input; exit with its code, or 128 + n for a signal n."""
    # Before anything is started, so that no orphan can get past it.
    become_subreaper()
    signal.signal(signal.SIGTERM, _terminate_early)
    # SIGTERM, not SIGKILL: this process must still kill the others.
    signal_when_parent_ends(signal.SIGTERM)
    # The parent may have ended before the kernel was asked to send a signal for that.
    if os.getppid() != parent:
        _terminate_early()
    request = json.load(sys.stdin)
    try:
        command = subprocess.Popen(
            request["argv"],
            env=request["environment"],
            cwd=request["directory"],
            # A command that reads standard input would otherwise wait for the request's pipe or the user's terminal.
            stdin=subprocess.DEVNULL,
            pass_fds=files,
        )
    except OSError as error:
        sys.stderr.write(f"{request['argv'][0]}: {error.strerror}\n")
        # The code of a shell for a command that was not found.
        sys.exit(127)
    code = command.wait()
    _kill_descendants()
    sys.exit(128 - code if code < 0 else code)


def _terminate_early(*_: object) -> NoReturn:
    """Signal handler: kill all processes of the command and exit."""
    _kill_descendants()
    # A signal handler may run inside any function, also one that holds a lock: no exit function must run.
    os._exit(128 + signal.SIGTERM)


def _kill_descendants() -> None:
    """Kill all descendants, including those that are started or orphaned in the meantime, for a limited time."""
    own, deadline = os.getpid(), time.monotonic() + _SECONDS_TO_DIE
    while time.monotonic() < deadline:
        left = [pid for pid in tree(own) if pid != own]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):  # it has exited already
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            # Waited for, so that zombies are not found again as descendants.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
