"""Wait for something that another process or thread does, where it gives no signal of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")

# Long enough for a machine that is busy with other programs, and shorter than the time-out of a test, so that the
# message says what did not happen. No test is about this time.
PATIENCE_SECONDS = 120.0


def wait_until(condition: Callable[[], T], what: str = "") -> T:
    """Return the first true result of the condition; fail, saying what did not happen, when there is none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what or "it did not happen"
        time.sleep(0.01)
    return found


def wait_for_text(path: Path) -> str:
    """Return the content of a file once it exists and is not empty."""
    return wait_until(lambda: path.exists() and path.read_text().strip(), f"nothing was written to {path}") or ""


def wait_for_end(*pids: int) -> None:
    """Wait until none of these processes runs any more."""
    wait_until(lambda: not alive(pids), f"one of {pids} is still running")


def alive(pids: tuple[int, ...] | list[int]) -> list[int]:
    """Return those of these processes that run; one may end while it is looked at."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found
