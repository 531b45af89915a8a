"""Signals to a runner: the first one pauses the experiment, a second Ctrl-C stops it without saving."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from determined.stop_request import StopRequest

# Ctrl-C, `kill` and a closed terminal. Each must pause, or work since the last checkpoint would be lost.
_PAUSING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Collects signals. `request` is the resulting stop request, pause or halt; `signal` is the first signal.

    `announce` is called with each new request at once, in a thread: the main thread may be waiting for a store or an
    engine, and a signal handler must not print. A third Ctrl-C raises KeyboardInterrupt, in case the runner is stuck.
    """

    def __init__(self, announce: Callable[[StopRequest, signal.Signals], None] | None = None) -> None:
        self.request: StopRequest | None = None
        self.signal: signal.Signals | None = None
        self._announce = announce
        self._announcements: queue.SimpleQueue[tuple[StopRequest, signal.Signals] | None] = queue.SimpleQueue()
        self._count = 0  # number of SIGINTs: other signals never stop an experiment without saving

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: derive the stop request from the signals so far."""
        self._count += number == signal.SIGINT
        self.signal = self.signal or signal.Signals(number)
        # The third one ends the process in any case, even if the runner does not react to requests.
        if number == signal.SIGINT and self._count > 2:
            raise KeyboardInterrupt
        request: StopRequest = "halt" if self._count > 1 else "pause"
        if request != self.request:
            self.request = request
            # SimpleQueue.put may be called in a signal handler: it takes no lock that the main thread could hold.
            self._announcements.put((request, signal.Signals(number)))

    @contextmanager
    def listening(self) -> Iterator[Interrupts]:
        """Handle signals inside the block; in a thread other than the main one nothing is changed."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        announcing = threading.Thread(target=self._announce_requests, name="determined-interrupts", daemon=True)
        announcing.start()
        # An ignored signal stays ignored: `nohup det ...` must survive its terminal.
        taken = [number for number in _PAUSING if signal.getsignal(number) is not signal.SIG_IGN]
        previous: dict[int, Any] = {number: signal.signal(number, self.handle) for number in taken}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._announcements.put(None)
            # Joined, so that the announcement is printed before the command's last lines.
            announcing.join()

    def _announce_requests(self) -> None:
        """Pass new requests to `announce`. Runs in the thread."""
        while (announcement := self._announcements.get()) is not None:
            if self._announce is not None:
                self._announce(*announcement)
