"""The commands `python` and `det` of a shell in a test, run as forks of the warm interpreter.

`warm.commands()` writes a file for each, which calls `main` in an interpreter without site packages, which starts in
some milliseconds. It waits for the program and ends as the program did.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import NoReturn

from determined.engines.warm import messages


def main(address: str, argv: list[str]) -> NoReturn:
    """Run a command with the streams, the environment and the directory of this process."""
    request = {
        "argv": argv,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "controlling_terminal": False,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        messages.send(connection, request, (0, 1, 2))
        started = messages.receive(connection)
        assert started is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(started.message["pid"], number))
        ended = messages.receive(connection)
        assert ended is not None
    code = os.waitstatus_to_exitcode(ended.message["status"])
    if code < 0:  # by a signal: end in the same way, so that the shell sees it
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
