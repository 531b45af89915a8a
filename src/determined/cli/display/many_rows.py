"""Speed up commands that build very many rows at once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def without_garbage_collection(command: F) -> F:
    """Pause the cyclic garbage collector while a command runs.

    For commands that read, print and exit: rows contain no cycles, and a collection at every 700th of them takes a
    fifth of the time of the command.
    """

    @wraps(command)
    def paused(*args: Any, **kwargs: Any) -> Any:
        gc.disable()
        try:
            return command(*args, **kwargs)
        finally:
            gc.enable()

    return paused  # type: ignore[return-value]
