"""The engine's connection to the warm process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping
from typing import Any

from determined.engines.base import Interpreter
from determined.engines.command import Module, Program, Script
from determined.engines.job_environment import without_run_variables
from determined.engines.warm import messages
from determined.engines.warm.job_request import JobRequest
from determined.errors import EngineError

_SECONDS_TO_END = 5.0  # it needs up to 2 seconds to kill its jobs
_MOST_CHARACTERS = 2000  # of its output in an error message

# Without the empty entry of sys.path: modules in the current directory must not shadow those that the warm process
# imports.
_PROGRAM = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from determined.engines.warm.server import main
main({connection}, {parent}, {directory!r}, store_is_server={store_is_server})
"""


class WarmProcessLost(EngineError):
    """The warm process has ended, and its jobs with it."""


class WarmProcess:
    """The running warm process of an engine. It imports in the background; the first job waits for that."""

    def __init__(
        self, directory: str, interpreter: Interpreter, environment: Mapping[str, str], *, store_is_server: bool
    ) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._used = False
        self._received: deque[dict[str, Any]] = deque()
        self.ready = False  # whether all imports are done, so that a job starts at once
        # A file and not a pipe: it is read only after the process has died, and a full pipe would block it.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process runs)
        program = _PROGRAM.format(
            connection=theirs.fileno(), parent=os.getpid(), directory=directory, store_is_server=store_is_server
        )
        with theirs:
            self._process = subprocess.Popen(
                [interpreter.python, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                # The warm process is no trial, even if this one is.
                env=interpreter.environment(without_run_variables(environment)),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )

    @property
    def pid(self) -> int:
        """Return the process id of the warm process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the file descriptor of the connection, to wait for messages."""
        return self._connection.fileno()

    def start(
        self,
        key: str,
        command: Script | Module | Program,
        environment: dict[str, str],
        directory: str,
        output: tuple[int, int],
    ) -> int:
        """Start a job whose output goes to these two files, and return the id of its main process."""
        self._used = True
        self._send({"start": key}, output, JobRequest(command, environment, directory).encode())
        # Until the answer to this start comes: exits of other jobs may arrive before it and are kept for `events`.
        while True:
            answer = self._receive()
            if "ready" in answer:
                continue
            if answer.get("started") == key:
                return int(answer["pid"])
            if answer.get("failed") == key:
                raise EngineError(f"{key} cannot be started: {answer['reason']}")
            self._received.append(answer)

    def kill(self, key: str) -> None:
        """Ask the warm process to kill a job."""
        self._send({"kill": key})

    def waiting(self) -> bool:
        """Return whether a message was received while `start` waited for its answer."""
        return bool(self._received)

    def next_message(self) -> dict[str, Any]:
        """Return the next message of the warm process; raise WarmProcessLost if it has ended."""
        return self._received.popleft() if self._received else self._receive()

    def replace(self) -> None:
        """Kill the warm process so that another one can replace it. No job may be running.

        `close` alone would let it exit normally and delete the engine's directory, which is still needed.
        """
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Close the connection, so that the warm process kills all jobs and exits.

        It is killed if that takes too long.
        """
        self._connection.close()
        if not self._used:  # it may still be importing, and has no jobs to kill
            self._process.kill()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def _send(self, message: dict[str, Any], files: tuple[int, ...] = (), body: bytes = b"") -> None:
        """Send a message; raise WarmProcessLost if the warm process has ended."""
        try:
            messages.send(self._connection, message, files, body)
        except OSError as error:
            raise self._lost() from error

    def _receive(self) -> dict[str, Any]:
        """Wait for the next message; raise WarmProcessLost if the warm process has ended."""
        received = messages.receive(self._connection)
        if received is None:
            raise self._lost()
        self.ready = self.ready or "ready" in received.message
        return received.message

    def _lost(self) -> WarmProcessLost:
        """Return the exception that describes how the warm process ended, with its last output."""
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return WarmProcessLost("the warm process, from which trials are started, does not respond")
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        self._output.seek(0)
        output = self._output.read().decode(errors="backslashreplace").strip()[-_MOST_CHARACTERS:]
        return WarmProcessLost(
            f"the warm process, from which trials are started, {how}{': ' + output if output else ''}"
        )
