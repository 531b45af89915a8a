"""Checkpoint files: names, forms of configuration, and checkpoints that appear complete or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from determined import paths
from determined.checkpoint_storage import (
    DirectoryStorage,
    build_from_argument,
    build_from_config,
    checked_id,
)
from determined.errors import (
    CheckpointNotFound,
    InvalidCheckpointException,
    InvalidConfigurationException,
)


@pytest.fixture
def storage(tmp_path: Path) -> DirectoryStorage:
    return DirectoryStorage(tmp_path / "store")


def put(storage: DirectoryStorage, name: str, **files: str) -> None:
    path = storage.stage(name)
    for file, content in files.items():
        (path / file).write_text(content)
    storage.commit(name)


def test_ids() -> None:
    assert checked_id("0a-B_9") == "0a-B_9"
    assert checked_id("x" * 128)
    for bad in ("", ".", "..", "-x", "_x", "a/b", "a\\b", "a\n", "a\0", "x" * 129, "ü", "a.b", " a", None, 3, b"a"):
        with pytest.raises(CheckpointNotFound, match="checkpoint"):
            checked_id(bad)


def test_a_checkpoint_appears_when_it_is_committed(storage: DirectoryStorage) -> None:
    path = storage.stage("one")
    (path / "sub").mkdir()
    (path / "sub" / "file").write_text("content")
    with pytest.raises(CheckpointNotFound, match="one"):
        storage.resources("one")
    assert storage.commit("one") == {"sub/": 0, "sub/file": 7}
    assert storage.resources("one") == {"sub/": 0, "sub/file": 7}
    assert sorted(os.listdir(storage.root)) == ["one"]
    assert stat.S_IMODE((storage.root / "one").stat().st_mode) == 0o700
    assert stat.S_IMODE(storage.root.stat().st_mode) == 0o700


def test_an_id_is_never_taken_twice(storage: DirectoryStorage) -> None:
    put(storage, "one", a="first")
    path = storage.stage("one")
    (path / "a").write_text("second")
    with pytest.raises(InvalidCheckpointException, match="one"):
        storage.commit("one")
    assert (storage.root / "one" / "a").read_text() == "first"


def test_an_abandoned_checkpoint_leaves_nothing(storage: DirectoryStorage) -> None:
    (storage.stage("one") / "half").write_text("x")
    storage.abandon("one")
    storage.abandon("one")
    assert os.listdir(storage.root) == []


def test_everything_is_flushed_before_the_rename(storage: DirectoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def watch_fsync(descriptor: int) -> None:
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def watch_rename(source: Any, target: Any) -> None:
        events.append("RENAME")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "rename", watch_rename)
    path = storage.stage("one")
    (path / "sub").mkdir()
    (path / "sub" / "deep").write_text("x")
    (path / "top").write_text("x")
    storage.commit("one")
    assert events == ["deep", "sub", "top", ".staging-one", "RENAME", "store"]


def test_fetch_copies_what_is_wanted(storage: DirectoryStorage, tmp_path: Path) -> None:
    path = storage.stage("one")
    (path / "a").mkdir()
    (path / "a" / "x").write_text("x")
    (path / "b").write_text("b")
    storage.commit("one")
    storage.fetch("one", tmp_path / "all")
    assert (tmp_path / "all" / "a" / "x").read_text() == "x"
    offered: list[str] = []

    def select(name: str) -> bool:
        offered.append(name)
        return name == "a/x"

    storage.fetch("one", tmp_path / "some", select)
    assert offered == ["a/", "a/x", "b"]
    assert [p.name for p in sorted((tmp_path / "some").rglob("*"))] == ["a", "x"]


def test_delete(storage: DirectoryStorage) -> None:
    put(storage, "one", a="1")
    storage.delete("one")
    assert os.listdir(storage.root) == []
    with pytest.raises(CheckpointNotFound, match="one"):
        storage.delete("one")


def test_links_are_not_followed(storage: DirectoryStorage, tmp_path: Path) -> None:
    put(storage, "real", a="1")
    (storage.root / "linked").symlink_to(storage.root / "real")
    for use in (storage.resources, storage.metadata, storage.delete):
        with pytest.raises(InvalidCheckpointException, match="linked"):
            use("linked")
    outside = tmp_path / "secret"
    outside.write_text("secret")
    (storage.root / "real" / "leak").symlink_to(outside)
    with pytest.raises(InvalidCheckpointException, match="leak"):
        storage.fetch("real", tmp_path / "target")
    with pytest.raises(InvalidCheckpointException, match="leak"), storage.open("real"):
        pass


def test_metadata(storage: DirectoryStorage) -> None:
    put(storage, "with", **{"metadata.json": '{"a": 1}'})
    put(storage, "without", a="1")
    put(storage, "broken", **{"metadata.json": "{"})
    put(storage, "list", **{"metadata.json": "[]"})
    assert storage.metadata("with") == {"a": 1}
    assert storage.metadata("without") == {}
    for name in ("broken", "list"):
        with pytest.raises(InvalidCheckpointException, match=name):
            storage.metadata(name)
    with pytest.raises(CheckpointNotFound):
        storage.metadata("missing")


@pytest.mark.parametrize("place", ["/dev/null/store", "/proc/nothing/store"])
def test_storage_that_cannot_be_written_is_named(place: str) -> None:
    with pytest.raises(OSError, match=f"checkpoint storage {place}"):
        DirectoryStorage(place).probe()


def test_a_full_disk_is_noticed_by_the_probe() -> None:
    program = (
        "import resource, signal, sys\nfrom determined.checkpoint_storage import DirectoryStorage\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "DirectoryStorage(sys.argv[1]).probe()"
    )
    place = str(paths.checkpoints_dir())
    done = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "File too large" in done.stderr.splitlines()[-1]
    assert place in done.stderr.splitlines()[-1]
    assert os.listdir(place) == []


def test_a_root_that_all_users_may_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(InvalidConfigurationException, match="all users of this machine"):
        DirectoryStorage(root).probe()
    with pytest.raises(InvalidConfigurationException, match="all users of this machine"):
        DirectoryStorage(root).stage("one")
    root.chmod(0o1777)  # as /tmp: users cannot change each other's files
    DirectoryStorage(root).probe()


WRITER = """
import os, sys
from determined.checkpoint_storage import DirectoryStorage
storage = DirectoryStorage(sys.argv[1])
(storage.stage("half") / "big").write_text("half")
sys.stdout.write("staged\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_what_a_killed_writer_left_is_removed_and_a_living_one_is_spared(storage: DirectoryStorage) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(storage.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"staged\n"
    storage.probe()
    assert sorted(os.listdir(storage.root)) == [".owner-half", ".staging-half"]
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.communicate()
    storage.probe()
    assert os.listdir(storage.root) == []


def test_what_another_machine_writes_is_spared_for_days(storage: DirectoryStorage) -> None:
    # Ends at once: its lock is no longer seen, as that of another machine is not seen on NFS.
    subprocess.run([sys.executable, "-c", WRITER, str(storage.root)], stdin=subprocess.DEVNULL, check=True)
    path, owner = storage.root / ".staging-half", storage.root / ".owner-half"
    owner.unlink()
    owner.symlink_to("another-machine-0123")
    storage.probe()
    assert path.is_dir()
    days_ago = time.time() - 8 * 24 * 3600
    os.utime(path, (days_ago, days_ago))
    storage.probe()
    assert os.listdir(storage.root) == []


def test_owners_without_a_directory_are_removed_after_days(storage: DirectoryStorage) -> None:
    storage.root.mkdir()
    old, new = storage.root / ".owner-old", storage.root / ".owner-new"
    for owner in (old, new):
        owner.symlink_to("another-machine-0123")
    days_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (days_ago, days_ago), follow_symlinks=False)
    storage.probe()
    assert os.listdir(storage.root) == [".owner-new"]
    put(storage, "new", file="x")
    assert os.listdir(storage.root) == ["new"]


def test_unfinished_checkpoints_of_earlier_versions_are_removed(storage: DirectoryStorage) -> None:
    (storage.root / ".staging-old").mkdir(parents=True)
    storage.probe()
    assert os.listdir(storage.root) == []


def test_marks_of_killed_runners_are_removed_by_later_ones(storage: DirectoryStorage) -> None:
    storage.write_mark("killed")
    storage.write_mark("running")
    months_ago = time.time() - 61 * 24 * 3600
    os.utime(storage.root / ".mark-killed", (months_ago, months_ago))
    storage.write_mark("new")
    assert [storage.has_mark(name) for name in ("killed", "running", "new")] == [False, True, True]


def test_own_unfinished_checkpoints_are_spared(storage: DirectoryStorage) -> None:
    path = storage.stage("mine")
    storage.probe()
    assert path.is_dir()
    descriptor = os.open(path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    storage.abandon("mine")


def test_the_default_is_the_data_directory() -> None:
    storage = build_from_argument(None)
    assert isinstance(storage, DirectoryStorage)
    assert storage.root == paths.checkpoints_dir()
    assert storage.local_roots() == [paths.checkpoints_dir()]


def test_forms_that_name_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forms: list[Any] = [
        str(tmp_path / "a"),
        "a",
        f"file:{tmp_path}/a",
        f"file://{tmp_path}/a",
        {"type": "directory", "container_path": str(tmp_path / "a"), "save_trial_best": 1},
    ]
    for form in forms:
        storage = build_from_argument(form)
        assert isinstance(storage, DirectoryStorage)
        assert storage.root == tmp_path / "a", form


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        ("", ValueError, "empty"),
        ("file://host/dir", ValueError, "host"),
        ("file:relative", ValueError, "absolute"),
        ("s3://bucket?x=1", ValueError, "query"),
        ("gs://bucket#frag", ValueError, "fragment"),
        ("s3://", ValueError, "bucket"),
        ("s3://bucket/../x", ValueError, "prefix"),
        ("hdfs://host/x", ValueError, "hdfs"),
        ("a\0b", ValueError, "NUL"),
        (3, TypeError, "3"),
        ({}, ValueError, "type"),
        ({"type": "ftp"}, ValueError, "'ftp'"),
        ({"type": ["s3"]}, ValueError, "s3"),
        ({"type": "directory"}, ValueError, "container_path"),
        ({"type": "directory", "container_path": "/x", "bucket": "b"}, ValueError, "bucket"),
        ({"type": "directory", "container_path": 3}, ValueError, "container_path"),
        ({"type": "shared_fs", "host_path": "/x"}, ValueError, "shared_fs"),
        ({"type": "azure", "container": "c"}, ValueError, "exactly one"),
        ({"type": "azure", "container": "c", "connection_string": "x", "credential": "y"}, ValueError, "credential"),
    ],
)
def test_forms_that_are_refused(form: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build_from_argument(form)


def test_shared_fs_in_a_configuration(tmp_path: Path) -> None:
    def root(**fields: Any) -> Path:
        storage = build_from_config({"type": "shared_fs", "host_path": str(tmp_path), **fields})
        assert isinstance(storage, DirectoryStorage)
        return storage.root

    assert root() == tmp_path
    assert root(storage_path="sub", propagation="rprivate") == tmp_path / "sub"
    assert root(storage_path=str(tmp_path / "sub")) == tmp_path / "sub"
    for outside in ("../x", f"{tmp_path}-sibling", "/elsewhere"):
        with pytest.raises(ValueError, match="below host_path"):
            root(storage_path=outside)
    with pytest.raises(ValueError, match="absolute"):
        build_from_config({"type": "shared_fs", "host_path": "relative"})
