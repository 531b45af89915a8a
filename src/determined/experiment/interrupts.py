"""Signals to a runner are wishes: the first Ctrl-C pauses the experiment, the second one kills it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

_PAUSING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """`wish` is what the signals so far amount to; `signal` is the first one."""

    def __init__(self) -> None:
        self.wish: Literal["pause", "kill"] | None = None
        self.signal: signal.Signals | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.wish = "kill" if number == signal.SIGINT and self.signal == signal.SIGINT else self.wish or "pause"
        self.signal = self.signal or signal.Signals(number)

    @contextmanager
    def listening(self) -> Iterator[Interrupts]:
        """Only the main thread of a program can take signals."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        # One that is ignored stays so: `nohup det ...` outlives its terminal.
        taken = [number for number in _PAUSING if signal.getsignal(number) is not signal.SIG_IGN]
        previous: dict[int, Any] = {number: signal.signal(number, self.handle) for number in taken}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
