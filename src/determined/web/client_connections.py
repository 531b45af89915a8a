"""`LimitedProtocol`: connections of clients that do nothing, or send or read too slowly, are closed.

Everybody on the machine can connect. uvicorn itself waits without a limit for the first request of a connection, for
the rest of one that has begun, and for clients that do not read their answer, until no file descriptor is left.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128  # half of the file descriptors that macOS allows; a browser opens six
REQUEST_SECONDS = 10.0  # until a request has arrived, but for its body
STALLED_SECONDS = 30.0  # in which a client reads nothing of its answer


class LimitedProtocol(H11Protocol):
    """A connection that is closed if no request arrives in time, or if its place is needed for a new one."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.is_aborted = False
        self._waiting: asyncio.TimerHandle | None = None  # for a request
        self._unsent = 0  # bytes of an answer, when they were last looked at
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that has been idle for the longest time if there are too many."""
        super().connection_made(transport)
        self._wait_for_request()
        # Several connections are made before the first of those that are closed for them is taken out of the list.
        present = [each for each in self.connections if isinstance(each, LimitedProtocol) and not each.is_aborted]
        if len(present) > MOST_CONNECTIONS:
            # The new one is idle as well, but the last of them: without others it is closed itself.
            min((each for each in present if each.idle_until), key=lambda each: each.idle_until).abort()

    def abort(self) -> None:
        """Close the connection. Not gently: that would wait for a client that does not read."""
        self.is_aborted = True
        self.transport.abort()

    @property
    def idle_until(self) -> float:
        """When the connection will be closed, for want of a request; 0 while one is being answered."""
        return 0.0 if self._waiting is None else self._waiting.when()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limits."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """End the time limit if a request has arrived. Any other byte leaves it as it is."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait_for_request()
        super().on_response_complete()
        if not self.cycle.response_complete:  # the next one had arrived already
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Watch whether the client reads its answer, which does not fit into the buffers."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Stop watching."""
        super().resume_writing()
        self._stop_watching()

    def _wait_for_request(self) -> None:
        """Begin to wait for the next request, which has to arrive in time."""
        self._stop_waiting()
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._end_waiting)

    def _stop_waiting(self) -> None:
        """Stop waiting: a request has arrived."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end_waiting(self) -> None:
        """Close the connection, unless the last answer is still being sent."""
        if self._stalled is None:
            self.abort()
        else:
            self._wait_for_request()

    def _watch_writing(self) -> None:
        """Look again later whether the client has read anything."""
        self._unsent = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self._check_writing)

    def _check_writing(self) -> None:
        """Close the connection if its client has read nothing since the last look."""
        if self.transport.get_write_buffer_size() >= self._unsent:
            self.abort()
        else:
            self._watch_writing()

    def _stop_watching(self) -> None:
        """Stop watching: the client has read enough."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
