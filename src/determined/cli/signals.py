"""Signals that end a command by an exception, so that it can remove what it has begun."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cleaning_up_on_signals() -> Iterator[None]:
    """Raise `SystemExit` on SIGTERM and SIGHUP, which by default end a process without any clean-up."""

    def end(number: int, frame: FrameType | None) -> None:
        for ending in _ENDING:  # a second signal must not interrupt the clean-up
            signal.signal(ending, signal.SIG_IGN)
        sys.exit(128 + number)

    # A signal that is ignored already, as SIGHUP under nohup, stays ignored.
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
