"""Find experiments that wait in the same store under another host or user, and therefore not in this queue."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from determined.plural import counted

if TYPE_CHECKING:
    from determined.store.store import Store


def elsewhere(store: Store) -> str:
    """Return a line about these experiments, or an empty string if there are none."""
    from determined.cli.display.safe_text import visible
    from determined.store.process import this_user

    here, me = socket.gethostname(), this_user()
    parts = [
        f"{counted(count, 'experiment waits', 'experiments wait')} on host {visible(host)}"
        + ("" if owner == me else f" for user {visible(owner)}")
        for (host, owner), count in store.queue.lengths().items()
        if (host, owner) != (here, me)
    ]
    return f"In other queues of this store: {', '.join(parts)}" if parts else ""
