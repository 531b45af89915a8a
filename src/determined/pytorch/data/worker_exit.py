"""End a loader worker together with its parent process, even if that was killed."""

from __future__ import annotations

import os
import select
import threading


def end_with_parent() -> None:
    """Exit this worker process when its parent exits.

    torch's workers check their parent only every five seconds, and only while they wait for work.
    """
    if not hasattr(os, "pidfd_open"):
        return
    try:
        parent = os.pidfd_open(os.getppid())
    except OSError:  # the parent has exited, or the kernel lacks pidfd: torch notices it later
        return
    threading.Thread(target=_wait, args=(parent,), name="determined-parent", daemon=True).start()


def _wait(parent: int) -> None:
    """Wait until the parent has exited, and exit at once, without running exit handlers."""
    select.select([parent], [], [])
    os._exit(1)
