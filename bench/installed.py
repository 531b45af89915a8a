"""The peers, and which of them are installed; nothing is imported to find out."""

from __future__ import annotations

import importlib.util

PEERS = {
    "Fabric": ("lightning", "fabric"),
    "Accelerate": ("accelerate", "accelerate"),
    "Ignite": ("ignite", "ignite"),
    "Lightning": ("lightning", "lightning"),
}
"""Name in the table: the module to look for, and the function in `peers.py` that trains with it."""


def installed(name: str) -> bool:
    """Return whether a peer is installed; whether it can be imported is seen when it trains."""
    return importlib.util.find_spec(PEERS[name][0]) is not None
