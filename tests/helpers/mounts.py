"""File systems for tests that need a separate one: read-only, or full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def read_only(directory: Path, at: Path | None = None) -> Iterator[None]:
    """Mount the directory read-only for the duration of the block: file modes would not stop root from writing.

    With `at` it is mounted there, and can still be written by its own path.
    """
    place = directory if at is None else at
    _mount("--bind", str(directory), str(place))
    try:
        _mount("-o", "remount,ro,bind", str(place))
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _mount(*arguments: str) -> None:
    try:
        subprocess.run(["mount", *arguments], check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {getattr(error, 'stderr', '') or error}")
