"""Several processes that download one checkpoint into the same directory at the same time."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from determined.checkpoint_storage.directory import DirectoryStorage
from determined.experiment.checkpoints.download import download_checkpoint

UUID = "0b4152d7-2019-4fb4-971a-1075318383fb"
PROCESSES = 6
FILES = {"metadata.json": b'{"steps_completed": 3}', "weights": b"w" * 100_000, "more/deep": b"d"}


@pytest.fixture
def storage(tmp_path: Path) -> DirectoryStorage:
    storage = DirectoryStorage(tmp_path / "storage")
    staged = storage.stage(UUID)
    (staged / "more").mkdir()
    for name, content in FILES.items():
        (staged / name).write_bytes(content)
    storage.commit(UUID)
    return storage


class Together(DirectoryStorage):
    """Makes all of them check the target and fetch their copies before the first one moves its copy there."""

    def __init__(self, root: Path, barrier: Barrier) -> None:
        super().__init__(root)
        self._barrier = barrier

    def fetch(self, checkpoint_id: str, directory: Path, wanted: object = None) -> None:
        super().fetch(checkpoint_id, directory)
        self._barrier.wait(timeout=60)


def download(root: Path, target: Path, barrier: Barrier) -> None:
    storage = Together(root, barrier)
    download_checkpoint(storage, UUID, target, storage.resources(UUID))


@pytest.mark.parametrize("before", ["nothing", "an empty directory", "a part of it"])
def test_all_of_them_succeed(before: str, storage: DirectoryStorage, tmp_path: Path) -> None:
    target = tmp_path / "downloads" / "target"
    if before == "an empty directory":
        target.mkdir(parents=True)
    elif before == "a part of it":
        download_checkpoint(storage, UUID, target, storage.resources(UUID))
        (target / "weights").unlink()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(PROCESSES)
    processes = [context.Process(target=download, args=(storage.root, target, barrier)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert {name: (target / name).read_bytes() for name in FILES} == FILES
    assert os.listdir(target.parent) == ["target"]


def test_downloads_into_one_directory_leave_complete_files(storage: DirectoryStorage, tmp_path: Path) -> None:
    """As several programs do that call `checkpoint.download` with the same directory."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=storage.fetch, args=(UUID, tmp_path / "target")) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert {name: (tmp_path / "target" / name).read_bytes() for name in FILES} == FILES
    assert sorted(os.listdir(tmp_path / "target")) == ["metadata.json", "more", "weights"]
