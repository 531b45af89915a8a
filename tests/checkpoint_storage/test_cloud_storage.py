"""Object stores keep the contract of a checkpoint storage: a real S3 server, and the library's own two stores."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import obstore.store
import pytest
import torch

from determined import paths
from determined.checkpoint_storage import build_from_argument, manifest
from determined.checkpoint_storage.base import METADATA_FILE
from determined.checkpoint_storage.bucket import PART_BYTES, Bucket
from determined.checkpoint_storage.cloud_storage import CloudStorage
from determined.checkpoint_storage.retention import Candidate, Policy, clean_up
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from tests.helpers.s3_server import S3Server

BIG = 2 * PART_BYTES + 12345


@pytest.fixture(params=["s3", "memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CloudStorage:
    if request.param == "s3":
        built = build_from_argument(request.getfixturevalue("server").config(prefix="runs/mine"))
        assert isinstance(built, CloudStorage)
        return built
    if request.param == "memory":
        return CloudStorage(Bucket(obstore.store.MemoryStore(), "memory"))
    return CloudStorage(Bucket(obstore.store.LocalStore(tmp_path / "objects", mkdir=True), "a directory"))


@pytest.fixture
def s3(server: S3Server) -> CloudStorage:
    built = build_from_argument(server.config())
    assert isinstance(built, CloudStorage)
    return built


def put(storage: CloudStorage, name: str, files: dict[str, bytes] | None = None) -> None:
    write(storage.stage(name), files or {"state": b"content"})
    storage.commit(name)


def write(directory: Path, files: dict[str, bytes]) -> None:
    for file, content in {METADATA_FILE: b'{"steps_completed": 1}', **files}.items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        if file.endswith("/"):
            (directory / file).mkdir()
        else:
            (directory / file).write_bytes(content)


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) + ("/" if path.is_dir() else "") for path in directory.rglob("*"))


def left_here() -> list[str]:
    """Return the files in the local directory in which files are staged."""
    root = paths.data_dir() / "cloud"
    return os.listdir(root) if root.exists() else []


def test_a_checkpoint_appears_when_it_is_committed(storage: CloudStorage) -> None:
    path = storage.stage("one")
    write(path, {"sub/file": b"content", "sub/empty/": b"", "zero": b""})
    with pytest.raises(CheckpointNotFound, match="no checkpoint one in"):
        storage.resources("one")
    expected = {METADATA_FILE: 22, "sub/": 0, "sub/empty/": 0, "sub/file": 7, "zero": 0}
    assert storage.commit("one") == expected
    assert list(storage.resources("one").items()) == list(expected.items())
    assert storage.metadata("one") == {"steps_completed": 1}
    assert left_here() == []


def test_files_come_back_as_they_were(storage: CloudStorage) -> None:
    content = {"big": os.urandom(BIG), "exact": os.urandom(PART_BYTES), "a b%20#?ü": b"x", "sub/deep/file": b"y"}
    put(storage, "one", {**content, "empty/": b""})
    with storage.open("one") as path:
        assert tree(path) == sorted([*content, METADATA_FILE, "sub/", "sub/deep/", "empty/"])
        assert {name: (path / name).read_bytes() for name in content} == content
    assert not path.exists()
    assert left_here() == []


def test_an_opened_checkpoint_is_removed_when_the_block_fails(storage: CloudStorage) -> None:
    put(storage, "one")
    with pytest.raises(KeyError), storage.open("one"):
        raise KeyError
    assert left_here() == []


def test_fetch_brings_what_is_wanted(storage: CloudStorage, tmp_path: Path) -> None:
    put(storage, "one", {"a/x": b"x", "a/y": b"y", "b": b"b"})
    storage.fetch("one", tmp_path / "all" / "of it")
    assert tree(tmp_path / "all" / "of it") == ["a/", "a/x", "a/y", "b", METADATA_FILE]
    offered: list[str] = []

    def select(name: str) -> bool:
        offered.append(name)
        return name == "a/x"

    storage.fetch("one", tmp_path / "some", select)
    assert offered == ["a/", "a/x", "a/y", "b", METADATA_FILE]
    assert tree(tmp_path / "some") == ["a/", "a/x"]
    with storage.open("one", lambda name: name == "b") as path:
        assert tree(path) == ["b"]
    with pytest.raises(CheckpointNotFound):
        storage.fetch("unknown", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_fetch_replaces_files_and_spares_others(storage: CloudStorage, tmp_path: Path) -> None:
    put(storage, "one", {"state": b"new", "sub/x": b"x"})
    write(tmp_path / "there", {"state": b"old", "mine": b"mine", "sub/y": b"y"})
    storage.fetch("one", tmp_path / "there")
    assert tree(tmp_path / "there") == [METADATA_FILE, "mine", "state", "sub/", "sub/x", "sub/y"]
    assert (tmp_path / "there" / "state").read_bytes() == b"new"


def test_an_id_is_never_taken_twice(storage: CloudStorage) -> None:
    put(storage, "one", {"a": b"first"})
    write(storage.stage("one"), {"a": b"second"})
    with pytest.raises(InvalidCheckpointException, match="one exists already"):
        storage.commit("one")
    with storage.open("one") as path:
        assert (path / "a").read_bytes() == b"first"


def test_a_checkpoint_needs_the_file_that_makes_it_visible(storage: CloudStorage) -> None:
    (storage.stage("one") / "state").write_bytes(b"x")
    with pytest.raises(InvalidCheckpointException, match=METADATA_FILE):
        storage.commit("one")


def test_an_abandoned_checkpoint_leaves_nothing(storage: CloudStorage) -> None:
    write(storage.stage("one"), {"half": b"x"})
    storage.abandon("one")
    storage.abandon("one")
    assert left_here() == []
    with pytest.raises(CheckpointNotFound):
        storage.resources("one")


def test_delete(storage: CloudStorage) -> None:
    put(storage, "one", {"a/b": b"1", "empty/": b""})
    put(storage, "one-2")
    storage.delete("one")
    with pytest.raises(CheckpointNotFound, match="one"):
        storage.delete("one")
    assert storage.metadata("one-2") == {"steps_completed": 1}


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_metadata_that_cannot_be_read(storage: CloudStorage, content: bytes) -> None:
    put(storage, "one", {METADATA_FILE: content})
    with pytest.raises(InvalidCheckpointException, match="one"):
        storage.metadata("one")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a\0b", ".unfinished"])
def test_names_that_are_no_checkpoint(storage: CloudStorage, name: str, tmp_path: Path) -> None:
    for use in (storage.resources, storage.metadata, storage.delete, storage.stage):
        with pytest.raises(CheckpointNotFound, match="cannot be the id"):
            use(name)
    with pytest.raises(CheckpointNotFound):
        storage.fetch(name, tmp_path / "x")


@pytest.mark.parametrize("name", ["a\\b", "line\nbreak"])
def test_file_names_that_mean_other_things_elsewhere_are_refused(storage: CloudStorage, name: str) -> None:
    write(storage.stage("one"), {name: b"x"})
    with pytest.raises(InvalidCheckpointException, match=r"checkpoint one.*no name for a file"):
        storage.commit("one")
    storage.abandon("one")
    with pytest.raises(CheckpointNotFound):
        storage.resources("one")


def test_the_probe_leaves_nothing(storage: CloudStorage) -> None:
    storage.probe()
    assert storage._bucket.entries("") == []
    assert left_here() == []


def test_a_clean_up_through_an_object_store(storage: CloudStorage) -> None:
    history = []
    for steps in (1, 2, 3):
        path = storage.stage(f"c{steps}")
        write(path, {"state": b"x" * steps})
        manifest.write(path)
        history.append(Candidate(f"c{steps}", 1, steps, resources=storage.commit(f"c{steps}")))
    storage._bucket.put("c3/state", b"yyy")
    assert clean_up(storage, history, Policy(0, 0, 1)).removed == ("c1",)
    assert storage.metadata("c2")
    assert left_here() == []


def test_transfers_draw_nothing_from_global_generators(storage: CloudStorage, tmp_path: Path) -> None:
    def states() -> list[str]:
        return [str(random.getstate()), str(np.random.get_state()), str(torch.get_rng_state().tolist())]

    before = states()
    storage.probe()
    put(storage, "one", {"big": os.urandom(BIG)})
    storage.fetch("one", tmp_path / "fetched")
    with storage.open("one"):
        pass
    storage.delete("one")
    assert states() == before


def test_objects_of_other_programs(s3: CloudStorage) -> None:
    bucket = s3._bucket
    bucket.put("two/metadata.json", b"{}")
    bucket.put("two/state", b"x")
    assert s3.resources("two") == {METADATA_FILE: 2, "state": 1}
    bucket.put("two/c:\\windows", b"x")
    with pytest.raises(InvalidCheckpointException, match="windows"), s3.open("two"):
        pass
    assert left_here() == []


def test_half_an_upload_is_invisible_and_collected_a_day_later(s3: CloudStorage, server: S3Server) -> None:
    for name in ("old", "fresh"):
        s3._bucket.put(f"{name}/state", b"x")
        s3._objects.note_begin(name)
    put(s3, "whole")
    s3._objects.note_begin("whole")
    for name in ("old", "whole"):
        note = server.bucket / ".unfinished" / name
        os.utime(note, (note.stat().st_atime, note.stat().st_mtime - 25 * 3600))
    server.restart()
    with pytest.raises(CheckpointNotFound, match="1 file of an unfinished upload"):
        s3.resources("old")
    s3.probe()
    assert server.objects() == [".unfinished/fresh", "fresh/state", f"whole/{METADATA_FILE}", "whole/state"]


WRITER = """
import json, sys
from determined.checkpoint_storage import build_from_argument
storage = build_from_argument(json.loads(sys.argv[1]))
path = storage.stage("half")
(path / "state").write_text("half")
sys.stdout.write("staged\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_what_a_killed_writer_left_on_this_machine_is_removed(s3: CloudStorage, server: S3Server) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, json.dumps(server.config())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"staged\n"
    s3.probe()
    assert sorted(left_here()) == [".owner-half", ".staging-half"]
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    s3.probe()
    assert left_here() == []


@pytest.fixture
def elsewhere(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CloudStorage:
    """Return the storage as a rank on another machine has it, with a separate data directory."""
    with monkeypatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
        built = build_from_argument(server.config())
    assert isinstance(built, CloudStorage)
    return built


def test_ranks_on_other_machines_contribute(s3: CloudStorage, elsewhere: CloudStorage, tmp_path: Path) -> None:
    write(s3.stage("one"), {"mine": b"m"})
    (elsewhere.staged("one") / "theirs").write_bytes(b"tt")
    s3.contribute("one")
    elsewhere.contribute("one")
    with pytest.raises(CheckpointNotFound):
        elsewhere.resources("one")
    assert s3.commit("one") == {METADATA_FILE: 22, "mine": 1, "theirs": 2}
    assert left_here() == []
    assert list((tmp_path / "elsewhere" / "determined" / "cloud").iterdir()) == []


def test_what_others_contributed_goes_when_the_chief_gives_up(
    s3: CloudStorage, elsewhere: CloudStorage, server: S3Server
) -> None:
    write(s3.stage("one"), {"mine": b"m"})
    (elsewhere.staged("one") / "theirs").write_bytes(b"tt")
    elsewhere.contribute("one")
    assert server.objects() == [".unfinished/one", "one/theirs"]
    elsewhere.abandon("one")
    s3.abandon("one")
    assert server.objects() == []
