"""A node's end of the store relay: the socket to which the workers on a node send their requests to the runner."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import socket

from determined.errors import EngineError
from determined.frames import LARGEST, FrameReader, NoFrame, framed

_AT_ONCE = 1 << 18  # bytes that are received by one call
# Answers that a worker has not read yet. It waits for each answer, so one that leaves more than two is not ours.
_MOST_UNREAD = 2 * (LARGEST + 4)
_WAITING = 512  # connections that are not accepted yet; all workers of a node may connect at the same time


class RelaySocket:
    """Receives requests from the workers of a node and sends them the answers, without looking into either.

    Used by one thread, which never waits here: `fileno` becomes readable when `received` has something to do. A
    connection that sends garbage, or does not read its answers, is closed; the others are not affected.
    """

    def __init__(self, directory: str) -> None:
        """Listen on the socket `store` in a directory that only its owner can enter."""
        self.path = os.path.join(directory, "store")
        self._numbers = itertools.count(1)
        self._connections: dict[int, _Connection] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        try:
            self._listener.bind(self.path)
            self._listener.listen(_WAITING)
        except OSError as error:
            self._listener.close()
            raise EngineError(f"workers cannot reach the store through {self.path}: {error}") from error
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def fileno(self) -> int:
        """Return the file descriptor to wait for, for the selector of an engine."""
        # An epoll or kqueue object, which is readable while one of its files is ready.
        return self._selector.fileno()

    def received(self) -> list[tuple[int, bytes]]:
        """Return the requests that have arrived completely, each with the number of its connection, and send answers.

        The number of a connection is never used again.
        """
        requests: list[tuple[int, bytes]] = []
        ready = [(key.data, events) for key, events in self._selector.select(0)]
        for connection, events in ready:
            if connection is not None:
                requests += self._serve(connection, events)
        # Last: a worker that has given up on a connection opens another one and repeats its request there. What it
        # sent before is read in this round, and the repetition in a later one, so that they are not interchanged.
        if any(connection is None for connection, _ in ready):
            self._accept()
        return requests

    def send(self, connection: int, body: bytes) -> None:
        """Send an answer, as soon as the worker reads it. Nothing happens if the connection is closed already."""
        found = self._connections.get(connection)
        if found is not None:
            found.unread += framed(body)
            self._flush(found)

    def close(self) -> None:
        """Close all connections and remove the socket."""
        for connection in list(self._connections.values()):
            self._close(connection)
        self._selector.close()
        self._listener.close()
        # The caller may have removed the directory already.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _accept(self) -> None:
        """Accept all connections that wait."""
        while True:
            try:
                accepted, _ = self._listener.accept()
            # None waits any more; or this process has no file descriptor left, and they wait until one is closed.
            except OSError:
                return
            accepted.setblocking(False)
            connection = _Connection(next(self._numbers), accepted)
            self._connections[connection.number] = connection
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection, events: int) -> list[tuple[int, bytes]]:
        """Return the requests that have arrived on a connection, and send pending answers; close it if it has ended."""
        bodies: list[bytes] = []
        try:
            if events & selectors.EVENT_READ:
                bodies = connection.receive()
        # Also of a peer that has reset the connection.
        except (OSError, NoFrame):
            connection.ended = True
        if connection.ended:
            self._close(connection)
        elif events & selectors.EVENT_WRITE:
            self._flush(connection)
        return [(connection.number, body) for body in bodies]

    def _flush(self, connection: _Connection) -> None:
        """Send what the peer can take now, and the rest when it has read that."""
        try:
            if connection.unread:
                sent = connection.socket.send(connection.unread)
                del connection.unread[:sent]
        except BlockingIOError:
            pass  # its buffer is full
        except OSError:
            self._close(connection)
            return
        if len(connection.unread) > _MOST_UNREAD:
            self._close(connection)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unread else 0)
        if self._selector.get_key(connection.socket).events != events:
            self._selector.modify(connection.socket, events, connection)

    def _close(self, connection: _Connection) -> None:
        """Close the connection of a worker."""
        del self._connections[connection.number]
        self._selector.unregister(connection.socket)
        connection.socket.close()


class _Connection:
    """A connected worker: the part of a request that has arrived, and the answers that it has not read."""

    def __init__(self, number: int, accepted: socket.socket) -> None:
        self.number = number
        self.socket = accepted
        self.unread = bytearray()
        self.ended = False  # the peer has closed its end
        self._frames = FrameReader()

    def receive(self) -> list[bytes]:
        """Return the requests that are complete with what has arrived. Raise `NoFrame` for garbage."""
        bodies: list[bytes] = []
        # Everything that is there, see `received`, but no more than a frame: a peer may send faster than this reads.
        with contextlib.suppress(BlockingIOError):
            for _ in range(LARGEST // _AT_ONCE):
                data = self.socket.recv(_AT_ONCE)
                if not data:
                    self.ended = True
                    break
                bodies += self._frames.feed(data)
        return bodies
