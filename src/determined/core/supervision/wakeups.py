"""The worker's socket for wake-ups: it wakes the runner and is woken by it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from pathlib import Path

_SECONDS_WITHOUT_RUNNER = 0.2  # polling interval when there is no runner to send wake-ups
_numbers = itertools.count()  # a process may create several sockets, one after another


class WorkerWakeups:
    """A socket for wake-ups. They carry no information except the key: all data is in the store."""

    def __init__(self, place: str | None, key: str) -> None:
        self._key = key.encode()
        self._runner = place
        self._socket: socket.socket | None = None
        if place is not None:
            # In the runner's directory, which is private to the user and removed with the runner.
            self._own = Path(place).parent / f"w-{os.getpid()}-{next(_numbers)}"
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(str(self._own))

    def wake_runner(self) -> None:
        """Wake the runner. A failure is ignored: the runner also polls the store."""
        if self._socket is not None:
            # A full queue of the runner must not block training: it will read the store anyway.
            self._socket.setblocking(False)
            with contextlib.suppress(OSError):
                self._socket.sendto(self._key, str(self._runner))

    def wait(self, seconds: float) -> None:
        """Return when a wake-up arrives, or after `seconds` at the latest."""
        if self._socket is None:
            time.sleep(min(seconds, _SECONDS_WITHOUT_RUNNER))
            return
        self._socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            # The content is not used, and the rest of a datagram is discarded.
            self._socket.recv(16)

    def close(self) -> None:
        """Close the socket and delete its file."""
        if self._socket is not None:
            self._socket.close()
            # The runner may have removed its directory already.
            with contextlib.suppress(FileNotFoundError):
                self._own.unlink()
