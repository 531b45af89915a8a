"""A worker's doorbell: it makes the runner look at the store, and rings when the runner has answered there."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from pathlib import Path

_SECONDS_WITHOUT_BELL = 0.2  # between two looks at the store, where nobody rings
_rooms = itertools.count()


class Doorbell:
    """Nothing is said through it but "look": what there is to know is in the store."""

    def __init__(self, place: str | None, key: str) -> None:
        self._key = key.encode()
        self._runner = place
        self._socket: socket.socket | None = None
        if place is not None:
            self._own = Path(place).parent / f"w-{os.getpid()}-{next(_rooms)}"
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(str(self._own))

    def ring(self) -> None:
        """A runner that is gone, or too busy to listen, looks by itself later."""
        if self._socket is not None:
            self._socket.setblocking(False)
            with contextlib.suppress(OSError):
                self._socket.sendto(self._key, str(self._runner))

    def wait(self, seconds: float) -> None:
        """Return when it rings, and after that time at the latest."""
        if self._socket is None:
            time.sleep(min(seconds, _SECONDS_WITHOUT_BELL))
            return
        self._socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            self._socket.recv(16)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            with contextlib.suppress(FileNotFoundError):
                self._own.unlink()
