"""Run one command so that nothing it started outlives it, or the process that asked for it.

The asking process starts `supervised()` as a child. That child collects orphaned processes below it, so daemons that
left the session of the command are found as well. It kills everything when the command ends, when it gets SIGTERM, and
when its parent ends (also by SIGKILL). The command, its variables and its directory arrive as JSON on standard input:
they may hold secrets, which a command line would show to every user of the machine.
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

from determined.engines.kernel import collect_orphans, signal_when_parent_ends
from determined.engines.processes import tree

_SECONDS_TO_DIE = 2.0  # a killed process that still exists after this waits for a device

# The current directory must not lend its modules to the supervising process.
_PROGRAM = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from determined.engines.supervised import main
main({parent}, {files!r})
"""


def supervised(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path, *, output: int, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to the file descriptor `output`; its exit code is that of the process."""
    program = _PROGRAM.format(parent=os.getpid(), files=tuple(keep_open))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=tuple(keep_open),
        start_new_session=True,  # Ctrl-C in the terminal is for the asking process, which ends this one
    )
    order = {"argv": list(argv), "environment": dict(environment), "directory": str(directory)}
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(order).encode())
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a supervised command and wait until everything it started has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(2 * _SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(parent: int, files: tuple[int, ...]) -> NoReturn:
    """Run the command that standard input describes; exit with its code, or 128 + n for a signal n."""
    collect_orphans()
    signal.signal(signal.SIGTERM, _end_early)
    signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != parent:
        _end_early()
    order = json.load(sys.stdin)
    try:
        command = subprocess.Popen(
            order["argv"],
            env=order["environment"],
            cwd=order["directory"],
            stdin=subprocess.DEVNULL,
            pass_fds=files,
        )
    except OSError as error:
        sys.stderr.write(f"{order['argv'][0]}: {error.strerror}\n")
        sys.exit(127)
    code = command.wait()
    _kill_descendants()
    sys.exit(128 - code if code < 0 else code)


def _end_early(*_: object) -> NoReturn:
    _kill_descendants()
    os._exit(128 + signal.SIGTERM)


def _kill_descendants() -> None:
    own, deadline = os.getpid(), time.monotonic() + _SECONDS_TO_DIE
    while time.monotonic() < deadline:
        left = [pid for pid in tree(own) if pid != own]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):  # it has ended already
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
