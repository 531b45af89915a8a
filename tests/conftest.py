"""What every test gets: data directories of its own, and one thread for each child process."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # children of tests share few cores

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`XDG_DATA_HOME` of this test alone; no variable of an outer run leaks in."""
    for name in list(os.environ):
        if name.startswith("DET_"):
            monkeypatch.delenv(name)
    home = tmp_path / "xdg-data"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))  # tests do not wait for each other's slots
    return home


@pytest.fixture(autouse=True)
def root_logger_level() -> Iterator[None]:
    """A test may switch the root logger to INFO; the next one starts as before."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)
