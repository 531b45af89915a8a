"""Wait for an effect of another process or thread if there is no signal to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")

# Long enough for a busy machine, and shorter than the time-out of a test, so that the message says what did not happen.
# No test is about this time.
PATIENCE_SECONDS = 120.0


def wait_until(condition: Callable[[], T], what: str = "") -> T:
    """Return the first true result of the condition; fail after a time, and say what did not happen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what or "it did not happen"
        time.sleep(0.01)
    return found


def wait_for_text(path: Path) -> str:
    """Return the content of a file once it exists and is not empty."""
    return wait_until(lambda: path.exists() and path.read_text().strip(), f"nothing was written to {path}") or ""


def wait_for_end(*pids: int) -> None:
    """Wait until none of these processes runs."""
    wait_until(lambda: not alive(pids), f"one of {pids} is still running")


def alive(pids: tuple[int, ...] | list[int]) -> list[int]:
    """Return those of these processes that run; a process may end during the check."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found
