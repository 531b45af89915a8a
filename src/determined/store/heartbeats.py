"""Heartbeats of standalone runs, by which other machines see that they are running.

The process of a run writes the time every few seconds. A process on this machine is looked up instead. The runner of a
search holds a lease, which has a heartbeat of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from determined.store.process import Process, is_running, on_this_machine
from determined.store.records import Attempt

logger = logging.getLogger("determined.store")

SECONDS_BETWEEN_HEARTBEATS = 15.0
# Long enough for a stall of the store, for a process that keeps Python's interpreter lock, and for clocks that differ a
# little; short enough to wait for, when a machine was lost and the run is started again elsewhere.
_SECONDS_ALIVE = 120.0
_SECONDS_BETWEEN_LOOKS = 1.0


def is_alive(process: Process, heartbeat: float | None) -> bool:
    """Return whether the process of a standalone run is running, on this machine or on another one.

    A process on another machine counts as running until two minutes after its last heartbeat. Runs of earlier versions
    have none, and never do.
    """
    if on_this_machine(process):
        return is_running(process)
    return heartbeat is not None and time.time() - heartbeat < _SECONDS_ALIVE


def is_active(attempt: Attempt) -> bool:
    """Return whether an attempt of a standalone run has not ended and its process is running."""
    return attempt.state == "running" and is_alive(attempt.process, attempt.heartbeat)


def is_active_after_watching(newest: Callable[[], Attempt]) -> bool:
    """Return whether the newest attempt of a run is really active; unlike `is_active`, wait if that is in doubt.

    A process on another machine that has just been lost looks alive: it is watched until its heartbeat advances, or is
    too old.
    """
    first = newest()
    attempt = first
    # By the monotonic clock: on a machine whose clock is a day behind, the last heartbeat would be recent for a day.
    deadline = time.monotonic() + _SECONDS_ALIVE
    while is_active(attempt) and time.monotonic() < deadline:
        if on_this_machine(attempt.process) or (attempt.number, attempt.heartbeat) != (first.number, first.heartbeat):
            return True
        if attempt is first:
            logger.info(
                "trial %d was running in process %d on %s a moment ago: waiting until that is lost or reports again",
                attempt.trial_id,
                attempt.process.pid,
                attempt.process.host,
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        attempt = newest()
    return False
