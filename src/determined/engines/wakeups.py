"""Wake-ups between the runner and its workers: datagrams on Unix sockets that make the receiver read the store at once.

A worker sends the key of its job from its own socket, which is in the same private directory. The runner remembers that
address and sends its wake-ups there. A datagram may be lost, so both sides also poll the store.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile

# Unix socket paths are limited to about 100 bytes, and the sockets of workers have longer names than this one
# Measured in bytes, as the kernel does.
_LONGEST_PATH = 80
# Longer than any key of a job; the rest of a longer datagram is discarded.
_MOST_BYTES = 4096


class RunnerWakeups:
    """The runner's socket for wake-ups, in a private directory where the sockets of workers are created as well."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="det-")  # mode 0700: other users can neither send nor receive
        # TMPDIR may be long, for example below a home directory; /tmp is always short.
        if len(os.fsencode(self.directory)) > _LONGEST_PATH:
            os.rmdir(self.directory)
            self.directory = tempfile.mkdtemp(prefix="det-", dir="/tmp")
        self.path = os.path.join(self.directory, "bell")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # Never block: a full buffer of a hanging worker must not stop the runner.
        self._socket.setblocking(False)
        self._socket.bind(self.path)
        self._workers: dict[str, set[str]] = {}
        self._received: dict[str, None] = {}

    def fileno(self) -> int:
        """Return the file descriptor of the socket, for the engine's selector."""
        return self._socket.fileno()

    def expect(self, key: str) -> None:
        """Accept wake-ups from workers of this job from now on."""
        self._workers[key] = set()

    def received(self) -> list[str]:
        """Return the keys of the jobs that sent a wake-up since the last call, each once."""
        self._receive()
        keys, self._received = list(self._received), {}
        return keys

    def send(self, key: str) -> None:
        """Wake all workers of a job that have sent at least one wake-up themselves."""
        # A worker that has just sent its first wake-up is woken too.
        self._receive()
        workers = self._workers.get(key, set())
        for address in list(workers):
            try:
                self._socket.sendto(b"!", address)
            except BlockingIOError:
                pass  # its buffer holds unread wake-ups, which wake it anyway
            except OSError:
                workers.discard(address)  # the worker has exited

    def has_one_of(self, pids: set[int]) -> bool:
        """Return whether one of these processes has a socket in the directory; socket names contain the process id."""
        # A worker's socket is named `w-<process id>-<number>`, see core/supervision/wakeups.py.
        names = [name.split("-") for name in os.listdir(self.directory)]
        return any(len(parts) == 3 and parts[1].isdigit() and int(parts[1]) in pids for parts in names)

    def forget(self, key: str) -> None:
        """Delete the sockets of a job that has ended and ignore its pending wake-ups."""
        # Before the sockets are deleted: a wake-up that arrived meanwhile must not be returned for an ended job.
        self._receive()
        self._received.pop(key, None)
        for address in self._workers.pop(key, set()):
            with contextlib.suppress(OSError):
                os.unlink(address)

    def _receive(self) -> None:
        """Read all pending datagrams without blocking. Keys of unknown jobs are ignored."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data, address = self._socket.recvfrom(_MOST_BYTES)
                key = data.decode(errors="replace")
                # Any process of the user could send here, and late datagrams of ended jobs arrive.
                if key in self._workers:
                    self._received[key] = None
                    # A worker without a socket of its own sends anonymously and cannot be woken.
                    if address:
                        self._workers[key].add(address)

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self.directory, ignore_errors=True)
