"""Let a program that was forked from the warm interpreter start its engine's warm process as such a fork, too.

The warm process has to be a child of the program, which has threads and open files by the time it starts its engine. So
the program forks a spare process while it is still a clean copy of the warm interpreter. The spare waits until the
engine asks for a warm process, and becomes it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import importlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from determined.engines.command import Script
from determined.engines.kernel import signal_when_parent_ends
from determined.engines.warm import messages
from determined.engines.warm.fork_compatibility import read_at_start
from determined.engines.warm.job import WarmFacts, run_job
from determined.engines.warm.job_request import JobRequest

_CLIENT = "determined.engines.warm.client"
_COMMANDS = {"activate", "continue", "create", "fork", "run"}  # of `det`, that may run an experiment
_HIGH = 500  # files above this number cannot be in the way of one with a given number


def is_started_by(argv: list[str]) -> bool:
    """Return whether this command is one of `det` that may start an engine."""
    is_det = any("determined.cli" in word or word.endswith("/det") for word in argv[1:3])
    return is_det and not _COMMANDS.isdisjoint(argv)


def import_client() -> None:
    """Import the module that starts warm processes, once for all programs."""
    importlib.import_module(_CLIENT)


def prepare(facts: WarmFacts, directory: Path) -> None:
    """Fork the spare process of this program, for the first warm process that its engine starts."""
    ours, its = socket.socketpair()
    program = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _wait_and_become(its, dataclasses.replace(facts, pid=program), directory)
    its.close()
    spares = [(pid, ours)]

    class EngineProcess(subprocess.Popen[bytes]):
        """`subprocess.Popen` that uses the spare process if it can."""

        def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
            pass_fds, env = rest[1], rest[3]
            pipes = rest[7:13]
            if not spares or args[0] != sys.executable or read_at_start(env) != facts.read_at_start:
                super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
                return
            self.pid, connection = spares.pop()
            (passed,) = pass_fds
            request = {"program": args[2], "environment": dict(env), "directory": os.getcwd(), "passed": passed}
            with connection:
                messages.send(connection, request, (pipes[0], pipes[3], pipes[5], passed))
            self._child_created = True
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    client = importlib.import_module(_CLIENT)
    vars(client)["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": EngineProcess})


def _wait_and_become(connection: socket.socket, facts: WarmFacts, directory: Path) -> None:
    """Run the program that the engine sends; end with the process that would send it."""
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != facts.pid:
        os._exit(0)
    with connection:
        received = messages.receive(connection)
    if received is None:
        os._exit(0)
    request, files, _ = received
    stdin, stdout, stderr, passed = (fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH) for file in files)
    for file in files:
        os.close(file)
    os.dup2(stdin, 0)
    os.close(stdin)
    os.dup2(passed, request["passed"])
    os.close(passed)
    program = directory / f"engine-{os.getpid()}.py"
    program.write_text(request["program"])
    run_job(
        JobRequest(Script((str(program),)), request["environment"], request["directory"]).encode(),
        (stdout, stderr),
        facts,
    )
