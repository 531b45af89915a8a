"""What every test gets: data directories of its own, and one thread for each child process."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # children of tests share few cores

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without collections of garbage, and keep the rewritten test modules for the next process.

    Every worker imports all test modules. Importing creates no garbage to speak of, and rewriting the assertions takes
    longer than all the rest; PYTHONDONTWRITEBYTECODE, which many containers set, would keep pytest from storing them.
    """
    wanted, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # later collections need not look at the modules and test items again
        gc.enable()
        sys.dont_write_bytecode = wanted


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
