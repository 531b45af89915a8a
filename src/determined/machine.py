"""The identity of the machine on which this process runs."""

from __future__ import annotations

import functools
import socket
import sys
from pathlib import Path


@functools.cache
def boot_id() -> str:
    """Return a text that changes with each start of the machine; empty where the system has none."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Some sandboxes have no /proc.
    except FileNotFoundError:
        return ""


def this_machine() -> str:
    """Return a name by which machines that share a file system tell each other apart.

    With the boot id, because machines of one image may have the same host name.
    """
    return f"{socket.gethostname()}-{boot_id()}"
