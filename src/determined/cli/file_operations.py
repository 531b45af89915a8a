"""Commands that read or write large files: no overwriting, progress, and clean-up after a signal."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from determined.errors import DeterminedError

# Unlike SIGINT, they would end the process without clean-up: Python raises no exception for them.
_TERMINATING = (signal.SIGTERM, signal.SIGHUP)
_SECONDS_BETWEEN_UPDATES = 0.2  # more frequent updates would only flicker


def refuse_existing(path: Path) -> None:
    """Raise DeterminedError if something exists at `path`, also a broken link."""
    if os.path.lexists(path):
        raise DeterminedError(f"{path} already exists: name another file with -o, or remove it")


@contextmanager
def cleaning_up_on_signals() -> Iterator[None]:
    """Raise `SystemExit` on SIGTERM and SIGHUP, which by default end a process without any clean-up."""

    def end(number: int, frame: FrameType | None) -> None:
        for ending in _TERMINATING:  # a second signal must not interrupt the clean-up
            signal.signal(ending, signal.SIG_IGN)
        sys.exit(128 + number)

    # A signal that is ignored already, as SIGHUP under nohup, stays ignored.
    before = {number: signal.getsignal(number) for number in _TERMINATING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """Show progress inside the block, if standard error is a terminal.

    Yields a function to call as `report(done, total)`, `report(done)` or `report("name of the step")`.
    """
    shows = sys.stderr.isatty()
    last = 0.0

    def report(done: int | str, total: int | None = None) -> None:
        nonlocal last
        now = time.monotonic()
        if not shows or now - last < _SECONDS_BETWEEN_UPDATES:
            return
        last = now
        of = "" if total is None else f" of {total:,}"
        line = f"checking {done}" if isinstance(done, str) else f"{done:,}{of} {what}"
        # \x1b[K erases what a longer line left behind.
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    try:
        yield report
    finally:
        # Nothing was drawn if the work took less than one update.
        if shows and last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
