"""The directory for the TensorBoard files of this process, used by everything that writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from determined.info import get_cluster_info

_current: list[Path] = []


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Make this directory the current one while a run is open."""
    _current.append(path)
    try:
        yield
    finally:
        _current.remove(path)  # not necessarily the last one: runs without `with` can end in any order


def current() -> Path:
    """Return the directory of the open run.

    Outside a run it is a temporary directory, named after the allocation, if there is one, and the rank.
    """
    if _current:
        return _current[-1]
    info = get_cluster_info()
    rank = os.environ.get("HOROVOD_RANK") or os.environ.get("RANK") or "0"
    return Path(tempfile.gettempdir()) / f"tensorboard-{info.allocation_id if info else 'none'}-{rank}"
