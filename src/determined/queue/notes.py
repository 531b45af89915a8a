"""Remarks about the queue that `det queue` and the web page show below its experiments."""

from __future__ import annotations

import socket

from determined.queue.daemon_start import SHUTTING_DOWN
from determined.queue.status import Status
from determined.sentences import capitalized, counted
from determined.store.process import this_user
from determined.store.store import Store


def daemon_notes(status: Status | None, *, waiting: bool) -> list[str]:
    """Return remarks about the daemon, given its status: why the experiments in the queue do not start."""
    if not waiting:
        return []
    if status is None:
        return ["No daemon serves the queue; resume with: det queue resume"]
    return [capitalized(SHUTTING_DOWN)] if status.leaving else []


def other_queues(store: Store) -> list[str]:
    """Return one remark for each queue of the same store on another host or of another user."""
    here, me = socket.gethostname(), this_user()
    return [
        f"{counted(count, 'experiment waits', 'experiments wait')} on host {host}"
        + ("" if owner == me else f" for user {owner}")
        for (host, owner), count in store.queue.lengths().items()
        if (host, owner) != (here, me)
    ]
