"""How far long work is, on a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN = 0.2


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """`with progress("rows") as tell: tell(done, total)`, or `tell(done)`, or `tell("a word")`."""
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
