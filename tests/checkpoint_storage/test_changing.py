"""Checkpoints that are changed after they were stored: in a directory and in object stores alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import obstore.store
import pytest

from determined.checkpoint_storage import CheckpointStorage, DirectoryStorage, build_from_argument, manifest
from determined.checkpoint_storage.base import METADATA_FILE
from determined.checkpoint_storage.bucket import Bucket
from determined.checkpoint_storage.cloud_storage import CloudStorage
from determined.errors import CheckpointNotFound, InvalidCheckpointException

FILES = {"state": b"content", "code/train.py": b"pass", "code/data/small": b"", METADATA_FILE: b"{}"}


@pytest.fixture(params=["directory", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    """Return a storage with one checkpoint."""
    if request.param == "directory":
        storage: CheckpointStorage = DirectoryStorage(tmp_path / "saved")
    elif request.param == "memory":
        storage = CloudStorage(Bucket(obstore.store.MemoryStore(), "memory"))
    else:
        storage = build_from_argument(request.getfixturevalue("server").config())
    path = storage.stage("one")
    for name, content in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    manifest.write(path)
    storage.commit("one")
    return storage


def test_files_at_its_top_are_replaced(storage: CheckpointStorage) -> None:
    content = {METADATA_FILE: b'{"a": 1}'}
    with storage.open("one") as path:
        content[manifest.MANIFEST_FILE] = manifest.with_changed(path, "one", content)
    resources = storage.rewrite("one", content)
    assert resources == storage.resources("one")
    assert resources[METADATA_FILE] == 8
    assert storage.metadata("one") == {"a": 1}
    with storage.open("one") as path:
        manifest.verify(path, "one")
        assert (path / "code" / "train.py").read_bytes() == b"pass"


def test_some_files_are_removed(storage: CheckpointStorage) -> None:
    left = storage.remove_files("one", lambda name: name.startswith("code/"))
    assert left == storage.resources("one")
    assert set(left) == {"state", METADATA_FILE, manifest.MANIFEST_FILE}
    left = storage.remove_files("one", lambda name: True)
    assert set(left) == {METADATA_FILE}, "by which a checkpoint is known"


@pytest.mark.parametrize("name", ["two", "..", "a/b"])
def test_there_is_no_other(storage: CheckpointStorage, name: str) -> None:
    with pytest.raises(CheckpointNotFound):
        storage.rewrite(name, {METADATA_FILE: b"{}"})
    with pytest.raises(CheckpointNotFound):
        storage.remove_files(name, lambda name: True)


def test_links_to_the_outside_are_not_followed(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path / "saved")
    (storage.stage("one") / METADATA_FILE).write_bytes(b"{}")
    storage.commit("one")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    (storage.root / "one" / "link").symlink_to(outside)
    calls: list[Callable[[], object]] = [
        lambda: storage.remove_files("one", lambda name: True),
        lambda: storage.rewrite("one", {"a": b""}),
    ]
    for call in calls:
        with pytest.raises(InvalidCheckpointException, match="link to the outside"):
            call()
    assert (outside / "file").exists()
