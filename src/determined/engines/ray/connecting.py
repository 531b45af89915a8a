"""Connect a process to a Ray cluster. Only the processes that talk to Ray import this module."""

from __future__ import annotations

import os
import re
import socket

import ray
from ray.exceptions import AuthenticationError

# Set for every process of ours that uses Ray, so that none of them depends on the defaults of a version.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}
_SECONDS_TO_REACH = 5.0
# In the messages of Ray on a machine without a raylet of the cluster.
_NO_NODE = ("Could not find any running Ray instance", "No node info found matching", "cannot find a local Raylet")

_FROM_ELSEWHERE = "Run the command on a node of the cluster, or from elsewhere with `ray job submit -- det …`"
_IN_ACTOR = "ray::"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*: ")
_NOT_INSTALLED = "No module named 'determined"


def connect(address: str | None) -> str | None:
    """Connect this process to the cluster; return the problem, as one line, if that fails."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _SETTINGS.items()})
    # Without an address Ray uses this variable, which may have a form that `--engine` refuses.
    if address is None and "://" in (variable := os.environ.get("RAY_ADDRESS", "")):
        return f"RAY_ADDRESS is {variable}: only HOST:PORT, the address of Ray's head, can be used. {_FROM_ELSEWHERE}"
    if address is not None and (reason := _unreachable(address)) is not None:
        return reason
    # Ray adds the current directory to the module path of its workers, where its files would shadow other modules.
    os.chdir("/")
    try:
        ray.init(
            address=address or "auto",
            namespace="determined",
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=False,
        )
    # Errors of its C++ part have no common class.
    except Exception as error:  # noqa: BLE001
        cluster = f"cannot connect to the Ray cluster {address or 'of this machine'}"
        if any(sign in str(error) for sign in _NO_NODE):
            return f"{cluster}: {_no_node(address)}"
        hint = _about_authentication() if isinstance(error, ConnectionError | AuthenticationError) else ""
        return f"{cluster}: {first_line(error)}{hint}"
    return None


def _no_node(address: str | None) -> str:
    """Return an advice for a machine that does not belong to the cluster."""
    return (
        f"this machine is no node of it: make it one with `ray start --address={address or 'HOST:PORT'}`, or run the "
        "command on a node with `ray job submit -- det …`"
    )


def _about_authentication() -> str:
    """Return a hint for a cluster that answers but accepts no connection: Ray's own message does not say why."""
    mode = os.environ.get("RAY_AUTH_MODE", "not set")
    return f"; RAY_AUTH_MODE is {mode} here: this setting and the token must be those of the cluster"


def _unreachable(address: str) -> str | None:
    """Return why no connection to an address can be made; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_REACH).close()
    except (OSError, OverflowError) as error:
        return f"cannot connect to the Ray cluster {address}: {error}"
    return None


def first_line(error: BaseException) -> str:
    """Return the line of a Ray error that says what happened; of an error in an actor, the line of the exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The message of an exception in an actor is the call with its ids and addresses, then the traceback.
    raised = [line for line in lines if _EXCEPTION.match(line)] if _IN_ACTOR in str(error) else []
    found = (raised[-1:] or lines or [type(error).__name__])[0]
    if _NOT_INSTALLED in found:
        return f"determined-pytorch is not installed on this node, or in another version ({found})"
    return found
