"""Training in a directory of its own: the code copy of a checkpoint takes the working directory."""

from __future__ import annotations

import multiprocessing.resource_tracker
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def work_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no progress line between the dots of pytest."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("DET_PROGRESS", "0")
    return directory


@pytest.fixture(scope="session", autouse=True)
def resource_tracker() -> None:
    """The process that `multiprocessing` starts with the first spawned worker, and keeps as long as this process runs.

    It is started here because it belongs to no test.
    """
    multiprocessing.resource_tracker.ensure_running()
