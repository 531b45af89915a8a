"""The ranks and ports that launchers pass to a worker in environment variables, and checks of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from determined.core.ranks.rendezvous import LOOPBACK


class DefaultPort(int):
    """The default of a port argument, kept for compatible signatures.

    Its type shows that the user gave no port; it is never opened.
    """


# The default ports of Determined.
PUB_PORT = DefaultPort(12360)
PULL_PORT = DefaultPort(12376)


class MissingRanksError(KeyError, RuntimeError):
    """The environment variables that give the rank are not set; the message names them."""

    def __str__(self) -> str:  # KeyError would show its message in quotes
        return RuntimeError.__str__(self)


def checked_ranks(numbers: Mapping[str, int | None]) -> tuple[int, int, int, int, int, int]:
    """Return the six rank numbers; raise if they are incomplete or contradictory."""
    missing = [name for name, value in numbers.items() if value is None]
    if len(missing) == len(numbers):
        # No number at all: a single process.
        return 0, 1, 0, 1, 0, 1
    if missing:
        raise ValueError(f"give all of {', '.join(numbers)} or none of them: {', '.join(missing)} missing")
    values: list[int] = []
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, got {value!r}")
        values.append(value)
    # Positions of rank, local rank and cross rank, each followed by its size.
    for position in (0, 2, 4):
        rank, size = values[position], values[position + 1]
        names = list(numbers)[position : position + 2]
        if not 0 <= rank < size:
            raise ValueError(f"{names[0]} must be at least 0 and below {names[1]}, got {rank} of {size}")
    if values[3] > values[1] or values[2] > values[0]:
        raise ValueError(
            f"a node cannot hold more ranks than the job: rank {values[2]} of {values[3]} on its node, "
            f"{values[0]} of {values[1]} in all"
        )
    return values[0], values[1], values[2], values[3], values[4], values[5]


def read_env(launcher: str, names: list[str]) -> list[int]:
    """Return the integers in these environment variables; raise MissingRanksError if some are not set."""
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise MissingRanksError(
            f"the environment variables {', '.join(missing)} are not set: start the script with {launcher}"
        )
    numbers = []
    for name in names:
        try:
            numbers.append(int(os.environ[name]))
        except ValueError:
            raise ValueError(
                f"the environment variable {name} is {os.environ[name]!r}: expected a whole number"
            ) from None
    return numbers


def port_from_env() -> int:
    """Return the port that the environment gives, or the default port, which is never opened."""
    # The variable with which Determined passes this port.
    given = os.environ.get("INTER_TRAIN_PROCESS_COMM_PORT_1")
    if given is None:
        return PUB_PORT
    if not given.isdecimal() or not 0 < int(given) < 65536:
        raise ValueError(f"INTER_TRAIN_PROCESS_COMM_PORT_1 is {given!r}: expected a port number")
    return int(given)


def read_tf_config(env: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return this worker's index and the addresses of all workers; one worker if TF_CONFIG is not set."""
    text = env.get("TF_CONFIG")
    if text is None:
        return 0, [LOOPBACK + ":0"]
    try:
        config = json.loads(text)
        task_type, index = config["task"]["type"], int(config["task"]["index"])
        addresses = [str(address) for address in config["cluster"]["worker"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"TF_CONFIG cannot be read ({type(error).__name__}: {error}): {text!r}") from error
    if task_type != "worker":
        raise ValueError(f"TF_CONFIG names a task of type {task_type!r}: only 'worker' is supported")
    return index, addresses
