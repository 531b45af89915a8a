"""The bridge's connection to the runner: a thread for each direction, so that neither side waits for the other."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from determined.engines.ray.encoding import characters
from determined.engines.warm import messages

# Events and other messages that the runner has not read. Beyond this number no more events are fetched from nodes,
# whose jobs then block on their output.
_MOST_UNREAD = 20_000
# The same for their text: an event may contain a megabyte of a file.
_MOST_UNREAD_CHARACTERS = 64 * 2**20


class RunnerConnection:
    """The socket to the runner, which may not read it for minutes while its store is unavailable."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unsent: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        # Events, and characters in them. Each is changed by one thread only.
        self._added = self._sent = _Weight(0, 0)

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; return None if the runner has ended."""
        received = messages.receive(self._connection)
        return None if received is None else received.message

    def start(self, on_message: Callable[[dict[str, Any] | None], object]) -> None:
        """Call `on_message`, in a thread, with each message and finally None; send messages in another thread."""

        def read() -> None:
            while (message := self.receive()) is not None:
                on_message(message)
            on_message(None)

        threading.Thread(target=read, name="from runner", daemon=True).start()
        threading.Thread(target=self._write, name="to runner", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, without waiting for the runner. Used by one thread."""
        self._added = self._added.plus(_weight(message))
        self._unsent.put(message)

    def send_now(self, message: dict[str, Any]) -> None:
        """Send a message before the threads are started."""
        messages.send(self._connection, message)

    @property
    def is_full(self) -> bool:
        """Whether the runner has too much to read, so that no more events should be fetched."""
        added, sent = self._added, self._sent
        return (
            added.events - sent.events >= _MOST_UNREAD or added.characters - sent.characters >= _MOST_UNREAD_CHARACTERS
        )

    def _write(self) -> None:
        """Thread: send messages in order until the runner has ended."""
        while True:
            message = self._unsent.get()
            try:
                messages.send(self._connection, message)
            except OSError:
                return  # the other thread notices the end of the runner, too
            self._sent = self._sent.plus(_weight(message))


class _Weight(NamedTuple):
    """A number of events, and of the characters in them."""

    events: int
    characters: int

    def plus(self, other: _Weight) -> _Weight:
        return _Weight(self.events + other.events, self.characters + other.characters)


def _weight(message: dict[str, Any]) -> _Weight:
    """Return the weight of a message: that of its events, or of one event without text."""
    events = message.get("list")
    return _Weight(1, 0) if events is None else _Weight(len(events), sum(map(characters, events)))
