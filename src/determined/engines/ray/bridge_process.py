"""`BridgeProcess`: the process that talks to Ray for a runner, and the connection to it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from determined.engines.ray.authentication import with_mode
from determined.engines.warm import messages
from determined.errors import EngineError

_SECONDS_TO_END = 10.0  # Ray needs up to 2 seconds to end actors
_MOST_CHARACTERS = 2000  # of its output in an error message

# Without the empty entry of sys.path: modules in the current directory must not shadow those that the bridge imports.
PROGRAM = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from determined.engines.ray.bridge.program import main
main({connection}, {parent})
"""


class BridgeProcess:
    """The bridge process and the connection to it."""

    def __init__(self, program: str = PROGRAM) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours
        # A file and not a pipe: Ray prints the logs of dead nodes, which are not read while it runs.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process runs)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program.format(connection=theirs.fileno(), parent=os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(theirs.fileno(),),
                env=with_mode(os.environ),
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )
        self._ended = False

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; one to a bridge that has ended is discarded, because its end is noticed by `receive`."""
        if not self._ended:
            with contextlib.suppress(OSError):
                messages.send(self._connection, message)

    def has_message(self, seconds: float) -> bool:
        """Return whether a message, or the end of the bridge, can be received; wait up to this time for it."""
        if self._ended:
            time.sleep(seconds)
            return False
        return bool(select.select([self._connection], [], [], seconds)[0])

    def receive(self, seconds: float | None) -> dict[str, Any] | None:
        """Return the next message; None if the bridge has ended. Raise EngineError if none arrives in time."""
        if seconds is not None and not self.has_message(seconds):
            raise EngineError(
                f"the Ray cluster did not answer within {seconds:g} s: check with `ray status` that its head runs, "
                "that RAY_AUTH_MODE and the token are those of the cluster, and that no firewall is between this "
                f"machine and the head{self._last_output()}"
            )
        received = messages.receive(self._connection)
        if received is None:
            self._ended = True
            return None
        return received.message

    def lost(self) -> str:
        """Return why the bridge has ended, with its last output."""
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return "the connection to Ray was lost"
        return f"the connection to Ray was lost: its process ended with code {code}{self._last_output()}"

    def close(self) -> None:
        """Close the connection, so that the bridge ends its actors and exits; kill it if that takes too long."""
        self._connection.close()
        self._ended = True
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def _last_output(self) -> str:
        self._output.seek(0)
        output = self._output.read().decode(errors="backslashreplace").strip()[-_MOST_CHARACTERS:]
        return f": {output}" if output else ""
