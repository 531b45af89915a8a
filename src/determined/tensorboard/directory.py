"""Which directory TensorBoard files of this process go to: one rule for everything that writes them."""

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
    """While a run is open, its directory is the one."""
    _current.append(path)
    try:
        yield
    finally:
        _current.remove(path)  # not the last one: runs without `with` end in any order


def current() -> Path:
    """The open run's directory; outside a run a temporary one, named after the task, if there is one, and the rank."""
    if _current:
        return _current[-1]
    info = get_cluster_info()
    rank = os.environ.get("HOROVOD_RANK") or os.environ.get("RANK") or "0"
    return Path(tempfile.gettempdir()) / f"tensorboard-{info.allocation_id if info else 'none'}-{rank}"
