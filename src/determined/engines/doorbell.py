"""How workers and the runner wake each other: datagrams on a socket in a directory that is the user's alone.

A worker sends the key of its job from a socket of its own, beside ours. That address is remembered, and rung back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile

_LONGEST_PATH = 80  # the system allows about a hundred bytes, and the workers' names are longer than ours
_MOST_BYTES = 4096


class Doorbell:
    """The runner's side."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="det-")  # mode 0700
        if len(os.fsencode(self.directory)) > _LONGEST_PATH:
            os.rmdir(self.directory)
            self.directory = tempfile.mkdtemp(prefix="det-", dir="/tmp")
        self.path = os.path.join(self.directory, "bell")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(self.path)
        self._workers: dict[str, set[str]] = {}
        self._rung: dict[str, None] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def expect(self, key: str) -> None:
        """From now on workers of this job may ring."""
        self._workers[key] = set()

    def rung(self) -> list[str]:
        """The keys of the jobs that have rung since the last call, each once."""
        self._receive()
        keys, self._rung = list(self._rung), {}
        return keys

    def ring(self, key: str) -> None:
        """Wake the workers of a job that have ever rung."""
        self._receive()
        workers = self._workers.get(key, set())
        for address in list(workers):
            try:
                self._socket.sendto(b"!", address)
            except BlockingIOError:
                pass  # it has not answered earlier calls yet, so it will wake anyway
            except OSError:
                workers.discard(address)  # that worker is gone

    def has_one_of(self, pids: set[int]) -> bool:
        """Whether one of these processes has a socket here: its number is in the name."""
        names = [name.split("-") for name in os.listdir(self.directory)]
        return any(len(parts) == 3 and parts[1].isdigit() and int(parts[1]) in pids for parts in names)

    def forget(self, key: str) -> None:
        """The job has ended: nobody listens there any more."""
        self._receive()
        self._rung.pop(key, None)
        for address in self._workers.pop(key, set()):
            with contextlib.suppress(OSError):
                os.unlink(address)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data, address = self._socket.recvfrom(_MOST_BYTES)
                key = data.decode(errors="replace")
                if key in self._workers:
                    self._rung[key] = None
                    if address:
                        self._workers[key].add(address)

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self.directory, ignore_errors=True)
