"""Training in a separate directory, because checkpoints contain a copy of the working directory."""

from __future__ import annotations

import multiprocessing.resource_tracker
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def work_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory, and disable the progress line."""
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
