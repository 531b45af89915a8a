"""Files in a storage without a record: recorded if complete, removed only if they state their origin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import obstore.store
import pytest

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import METADATA_FILE, CheckpointStorage
from determined.checkpoint_storage.bucket import Bucket
from determined.checkpoint_storage.cloud_storage import CloudStorage
from determined.checkpoint_storage.directory import DirectoryStorage
from determined.checkpoint_storage.unrecorded import examine
from determined.errors import InvalidCheckpointException

OWN = {"store": "this one", "experiment": "key", "trial": 1, "attempt": 1}


@pytest.fixture(params=["directory", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    if request.param == "directory":
        return DirectoryStorage(tmp_path / "root")
    return CloudStorage(Bucket(obstore.store.LocalStore(tmp_path / "root", mkdir=True), "a directory"))


def publish(storage: CheckpointStorage, origin: dict[str, object] | None, damage: Callable[[Path], object]) -> None:
    staged = storage.stage("one")
    (staged / METADATA_FILE).write_text(json.dumps({"steps_completed": 4, "a": 1}))
    (staged / "weights").write_bytes(b"content")
    if origin is not None:
        manifest.write(staged, origin=origin)
    damage(staged)
    storage.commit("one")


def damaged(staged: Path) -> None:
    (staged / "weights").write_bytes(b"CONTENT")


def test_a_complete_checkpoint_is_recorded(storage: CheckpointStorage) -> None:
    assert examine(storage, "one", OWN) is None  # it was never published
    publish(storage, OWN, lambda staged: None)
    found = examine(storage, "one", OWN)
    assert found is not None
    assert found[0] == {"steps_completed": 4, "a": 1}
    assert found[1] == storage.resources("one")


def test_without_a_manifest_its_metadata_are_enough(storage: CheckpointStorage) -> None:
    publish(storage, None, lambda staged: None)
    assert examine(storage, "one", OWN) is not None


def test_a_damaged_one_of_this_attempt_is_removed(storage: CheckpointStorage, caplog: pytest.LogCaptureFixture) -> None:
    publish(storage, OWN, damaged)
    assert examine(storage, "one", OWN) is None
    assert "checkpoint one is damaged: the content of weights was changed; it was never recorded" in caplog.text
    assert examine(storage, "one", OWN) is None
    assert not (storage.local_roots()[0] / "one").exists()


@pytest.mark.parametrize(
    "origin",
    [
        {**OWN, "store": "another one"},
        {**OWN, "experiment": "another"},
        {**OWN, "trial": 2},
        {**OWN, "attempt": 2},
        "this one",
        None,
    ],
)
def test_what_is_of_others_stays(storage: CheckpointStorage, origin: dict[str, object] | None) -> None:
    publish(storage, origin, damaged)
    if origin is None:  # no file says that it is damaged
        assert examine(storage, "one", OWN) is not None
    else:
        assert examine(storage, "one", OWN) is None
    assert set(storage.resources("one")) >= {METADATA_FILE, "weights"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda staged: (staged / manifest.MANIFEST_FILE).write_text("{"),
        lambda staged: (staged / manifest.MANIFEST_FILE).write_text(json.dumps({"files": {}, "origin": OWN})),
        lambda staged: (staged / METADATA_FILE).write_text("{"),
        lambda staged: (staged / METADATA_FILE).write_text('{"steps_completed": "4"}'),
    ],
)
def test_contradictory_files_are_not_recorded(
    storage: CheckpointStorage, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    def write_and_damage(staged: Path) -> None:
        manifest.write(staged, origin={**OWN, "store": "x"})
        damage(staged)

    publish(storage, None, write_and_damage)
    assert examine(storage, "one", OWN) is None
    assert "its origin is unknown" in caplog.text
    assert "weights" in storage.resources("one")


def test_a_manifest_keeps_its_origin(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("content")
    manifest.write(tmp_path, origin=OWN)
    manifest.verify(tmp_path, "one")
    text = manifest.with_changed(tmp_path, "one", {"weights": b"other"})
    (tmp_path / "weights").write_text("other")
    (tmp_path / manifest.MANIFEST_FILE).write_bytes(text)
    manifest.verify(tmp_path, "one")
    assert manifest.origin(tmp_path, "one") == OWN
    changed = text.decode().replace("this one", "that one")
    (tmp_path / manifest.MANIFEST_FILE).write_text(changed)
    with pytest.raises(InvalidCheckpointException, match="manifest"):
        manifest.verify(tmp_path, "one")
