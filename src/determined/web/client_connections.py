"""`LimitedProtocol`: closes connections of clients that are idle, or that send or read too slowly.

Every user of the machine can connect. uvicorn itself waits without a limit for the first request of a connection, for
the rest of one that has begun, and for clients that do not read their answer, until no file descriptor is left.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128  # half of the file descriptors that macOS allows; a browser opens six
REQUEST_SECONDS = 10.0  # until the head of a request has arrived; its body has another limit
STALLED_SECONDS = 30.0  # without the client reading anything of its response


class LimitedProtocol(H11Protocol):
    """A connection that is closed if no request arrives in time, or if its place is needed for a new one."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.is_aborted = False
        self._waiting: asyncio.TimerHandle | None = None  # closes the connection unless a request arrives
        self._unsent = 0  # bytes in the write buffer at the last check
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of a new connection; if there are too many, close the one that was idle longest."""
        super().connection_made(transport)
        self._wait_for_request()
        # An aborted connection stays in the list for a moment, in which more connections may be made.
        present = [each for each in self.connections if isinstance(each, LimitedProtocol) and not each.is_aborted]
        if len(present) > MOST_CONNECTIONS:
            # The new connection is idle, too, but its time limit ends last: it is closed only if no other is idle.
            min((each for each in present if each.idle_until), key=lambda each: each.idle_until).abort()

    def abort(self) -> None:
        """Close the connection. Not gently: that would wait for a client that does not read."""
        self.is_aborted = True
        self.transport.abort()

    @property
    def idle_until(self) -> float:
        """The time at which the connection is closed unless a request arrives; 0 while a request is being answered."""
        return 0.0 if self._waiting is None else self._waiting.when()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits of a connection that was closed."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Cancel the time limit once the head of a request is complete; single bytes do not extend it."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Start the time limit for the next request."""
        self._wait_for_request()
        super().on_response_complete()
        if not self.cycle.response_complete:  # the next one had arrived already
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Start to check that the client reads its response, which does not fit into the buffers."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Stop checking: the client has read enough."""
        super().resume_writing()
        self._stop_watching()

    def _wait_for_request(self) -> None:
        """Start the timer that closes the connection unless a request arrives."""
        self._stop_waiting()
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._end_waiting)

    def _stop_waiting(self) -> None:
        """Cancel the timer that waits for a request."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end_waiting(self) -> None:
        """Timer: close the connection, unless the last response is still being sent."""
        if self._stalled is None:
            self.abort()
        else:
            self._wait_for_request()

    def _watch_writing(self) -> None:
        """Record the size of the write buffer, and start the timer that checks it."""
        self._unsent = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self._check_writing)

    def _check_writing(self) -> None:
        """Timer: close the connection if its client has read nothing since the last check."""
        if self.transport.get_write_buffer_size() >= self._unsent:
            self.abort()
        else:
            self._watch_writing()

    def _stop_watching(self) -> None:
        """Cancel the timer that checks whether the client reads."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
