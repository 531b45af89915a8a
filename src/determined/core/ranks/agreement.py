"""Run a step on all ranks such that it succeeds on every rank or fails on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from determined.errors import DistributedError

T = TypeVar("T")


def in_step(exchange: Callable[[Any], list[Any]], rank: int, action: Callable[[], T], *, doing: str) -> list[T]:
    """Run `action` on this rank and return the results of all ranks in order; a failure on any rank raises on all.

    `exchange` is `distributed.allgather` or `allgather_local`; `rank` is the number of this rank in the job. The rank
    that failed raises its own error; the others raise a DistributedError that names it. Without this exchange the other
    ranks would block in their next collective.
    """
    own_error: Exception | None = None
    result: T | None = None
    try:
        result = action()
    # Exception and not BaseException: after Ctrl-C this rank exits, and the others notice that it is missing.
    except Exception as error:  # noqa: BLE001  (raised below, once the other ranks know)
        own_error = error
    failure = None if own_error is None else f"{type(own_error).__name__}: {own_error}"
    # Exchanged as text, because exceptions of user code cannot always be pickled.
    outcomes = exchange((rank, failure, result))
    if own_error is not None:
        raise own_error
    for other, why, _ in outcomes:
        if why is not None:
            raise DistributedError(f"rank {other} failed {doing}: {why}")
    return [outcome for _, _, outcome in outcomes]
