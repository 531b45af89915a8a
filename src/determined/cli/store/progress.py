"""Show the progress of long operations on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN = 0.2


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """Show progress inside the block, if standard error is a terminal.

    Yields a function to call as `tell(done, total)`, `tell(done)` or `tell("name of the step")`.
    """
    shows = sys.stderr.isatty()
    last = 0.0

    def tell(done: int | str, total: int | None = None) -> None:
        nonlocal last
        now = time.monotonic()
        if not shows or now - last < _SECONDS_BETWEEN:
            return
        last = now
        of = "" if total is None else f" of {total:,}"
        line = f"checking {done}" if isinstance(done, str) else f"{done:,}{of} {what}"
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        if shows and last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
