"""A loader worker ends together with the process that it works for, however that one ended."""

from __future__ import annotations

import os
import select
import threading


def end_with_parent() -> None:
    """In a worker. torch looks after its parent only every five seconds, and only while it waits for work."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        parent = os.pidfd_open(os.getppid())
    except OSError:  # no such process, or a kernel without this: torch notices it later
        return
    threading.Thread(target=_wait, args=(parent,), name="determined-parent", daemon=True).start()


def _wait(parent: int) -> None:
    select.select([parent], [], [])
    os._exit(1)
