"""Outputs in every kind of storage: uploads that appear together, replace files, and can be reverted."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.checkpoint_storage import bucket as buckets
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.build import build_from_argument
from determined.checkpoint_storage.directory import DirectoryStorage
from determined.checkpoint_storage.outputs import new_output_id, staged_files
from determined.errors import CheckpointNotFound
from tests.helpers.s3_server import S3Server


@pytest.fixture(params=["directory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    if request.param == "directory":
        return DirectoryStorage(tmp_path / "storage")
    server: S3Server = request.getfixturevalue("server")
    return build_from_argument(server.config())


def upload(storage: CheckpointStorage, output: str, files: dict[str, str], rank: int = 0) -> str:
    """Upload these files; return the key of the upload."""
    key = uuid.uuid4().hex
    with storage.outputs.staged() as staged:
        for name, text in files.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_text(text)
        storage.outputs.publish(output, key, staged, f"rank_{rank}", staged_files(staged))
    return key


def content(storage: CheckpointStorage, output: str, names: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the content of files that must exist, and check their sizes."""
    target = tmp_path / f"fetched-{uuid.uuid4()}"
    storage.outputs.fetch(output, {name: len(text) for name, text in names.items()}, target, {})
    return {name: (target / name).read_text() for name in names}


def test_files_of_ranks_and_what_replaces_them(storage: CheckpointStorage, tmp_path: Path) -> None:
    output = new_output_id()
    upload(storage, output, {"a": "one", "deep/er/b": "two"})
    upload(storage, output, {"a": "other"}, rank=1)
    second = upload(storage, output, {"a": "three", "c": "four"})
    now = {"rank_0/a": "three", "rank_0/deep/er/b": "two", "rank_0/c": "four", "rank_1/a": "other"}
    assert content(storage, output, now, tmp_path) == now
    names = ["rank_0/a", "rank_0/c"]
    assert storage.outputs.revert(output, second, names, {"rank_0/a"}) == []
    before = {"rank_0/a": "one", "rank_0/deep/er/b": "two"}
    assert content(storage, output, before, tmp_path) == before
    with pytest.raises(CheckpointNotFound, match="rank_0/c is missing"):
        content(storage, output, {"rank_0/c": "four"}, tmp_path)
    assert storage.outputs.revert(output, second, names, {"rank_0/a"}) == ["rank_0/a"], "once more changes nothing"
    assert content(storage, output, before, tmp_path) == before


def test_files_that_an_unfinished_upload_has_replaced_can_be_fetched(
    storage: CheckpointStorage, tmp_path: Path
) -> None:
    output = new_output_id()
    upload(storage, output, {"a": "one", "b": "two"})
    key = upload(storage, output, {"a": "three"})
    replaced = {"rank_0/a": key, "rank_0/b": key}
    storage.outputs.fetch(output, {"rank_0/a": 3, "rank_0/b": 3}, tmp_path / "fetched", replaced)
    assert (tmp_path / "fetched/rank_0/a").read_text() == "one"
    assert (tmp_path / "fetched/rank_0/b").read_text() == "two"


def test_what_was_forgotten_cannot_come_back_and_so_the_newer_file_stays(
    storage: CheckpointStorage, tmp_path: Path
) -> None:
    output = new_output_id()
    upload(storage, output, {"a": "one"})
    second = upload(storage, output, {"a": "two", "b": "new"})
    storage.outputs.delete_replaced(output, second)
    assert storage.outputs.revert(output, second, ["rank_0/a", "rank_0/b"], {"rank_0/a"}) == ["rank_0/a"]
    assert content(storage, output, {"rank_0/a": "two"}, tmp_path) == {"rank_0/a": "two"}
    with pytest.raises(CheckpointNotFound):
        content(storage, output, {"rank_0/b": "new"}, tmp_path)


def test_an_output_is_no_checkpoint_and_is_deleted_with_all_that_it_has(
    storage: CheckpointStorage, tmp_path: Path
) -> None:
    output, other = new_output_id(), new_output_id()
    upload(storage, output, {"a": "one"})
    upload(storage, output, {"a": "two"})
    upload(storage, other, {"a": "one"})
    for attempt in (storage.resources, storage.metadata, storage.delete, storage.stage):
        with pytest.raises(CheckpointNotFound, match="is the output of a trial, not a checkpoint"):
            attempt(output)
    storage.outputs.delete(output)
    storage.outputs.delete(output)
    with pytest.raises(CheckpointNotFound):
        content(storage, output, {"rank_0/a": "two"}, tmp_path)
    assert content(storage, other, {"rank_0/a": "one"}, tmp_path) == {"rank_0/a": "one"}
    if isinstance(storage, DirectoryStorage):
        assert os.listdir(storage.root) == [other]


def test_a_changed_file_is_not_fetched(storage: CheckpointStorage, tmp_path: Path) -> None:
    output = new_output_id()
    upload(storage, output, {"a": "one"})
    with pytest.raises(CheckpointNotFound, match="rank_0/a has 3 bytes instead of 9"):
        storage.outputs.fetch(output, {"rank_0/a": 9}, tmp_path / "fetched", {})


@pytest.mark.parametrize("name", ["../../x", "rank_0/../x", "/x", "rank_0//x", "rank_0/a\\b", "rank_0/\x01"])
def test_names_never_lead_elsewhere(storage: CheckpointStorage, tmp_path: Path, name: str) -> None:
    output = new_output_id()
    upload(storage, output, {"a": "one"})
    with pytest.raises(ValueError, match="cannot be the name of a file of an output"):
        storage.outputs.fetch(output, {name: 3}, tmp_path / "fetched", {})
    with pytest.raises(CheckpointNotFound, match="cannot be the id of an output"):
        storage.outputs.fetch("../" + output, {"rank_0/a": 3}, tmp_path / "fetched", {})
    with pytest.raises(CheckpointNotFound, match="cannot be the key of an upload"):
        storage.outputs.delete_replaced(output, "../x")


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "secret").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="'here/secret' in upload_path"):
        staged_files(tmp_path)


def test_a_file_cannot_replace_a_directory(tmp_path: Path) -> None:
    storage, output = DirectoryStorage(tmp_path), new_output_id()
    upload(storage, output, {"a/b": "one"})
    with pytest.raises(FileExistsError, match="'a' cannot be uploaded: a directory of that name"):
        upload(storage, output, {"0": "first", "a": "file"})
    with pytest.raises(FileExistsError, match="'a/b/c' cannot be uploaded: rank_0/a/b is a file"):
        upload(storage, output, {"0": "first", "a/b/c": "file"})
    assert sorted(staged_files(tmp_path / output)) == ["rank_0/a/b"]


def test_objects_too_large_for_the_servers_own_copy(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "_LARGEST_COPY", 3)
    storage, output = build_from_argument(server.config()), new_output_id()
    upload(storage, output, {"a": "a longer text", "b": "sh"})
    assert content(storage, output, {"rank_0/a": "a longer text"}, tmp_path) == {"rank_0/a": "a longer text"}


def test_a_directory_is_found_as_it_was_whenever_the_process_was_killed(tmp_path: Path) -> None:
    """Killed at each system call that changes names: after `revert` no file of the upload is left."""
    kills = 0
    for kill_at in range(100):
        storage, output = DirectoryStorage(tmp_path / str(kill_at)), new_output_id()
        upload(storage, output, {"a": "one", "b": "two"})
        key = uuid.uuid4().hex
        child = os.fork()
        if child == 0:
            _publish_and_die(storage, output, key, kill_at)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
        storage.outputs.revert(output, key, ["rank_0/a", "rank_0/b", "rank_0/c"], {"rank_0/a", "rank_0/b"})
        DirectoryStorage(storage.root).probe()  # removes what the killed process had staged
        assert {p: (storage.root / p).read_text() for p in staged_files(storage.root)} == {
            f"{output}/rank_0/a": "one",
            f"{output}/rank_0/b": "two",
        }
    assert kills >= 5, "two files are kept aside and three are moved"


def _publish_and_die(storage: DirectoryStorage, output: str, key: str, kill_at: int) -> None:
    calls = 0
    real = {"link": os.link, "replace": os.replace}

    def counted(name: str) -> None:
        def call(*args: object, **options: object) -> None:
            nonlocal calls
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            real[name](*args, **options)  # type: ignore[arg-type]

        setattr(os, name, call)

    try:
        for name in real:
            counted(name)
        with storage.outputs.staged() as staged:
            for each in "abc":
                (staged / each).write_text(f"new {each}")
            storage.outputs.publish(output, key, staged, "rank_0", "abc")
    finally:
        os._exit(0)


class Killed(BaseException):
    """Simulates the end of the process between two requests to the server."""


def test_a_bucket_is_found_as_it_was_whenever_the_process_was_killed(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted before each request that changes objects: no object of the upload is left after `revert`."""
    left = 0
    real = {name: getattr(buckets.Bucket, name) for name in ("copy", "put_file", "delete")}

    def counting(name: str) -> Callable[..., object]:
        def call(self: buckets.Bucket, *args: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real[name](self, *args)

        return call

    storage = build_from_argument(server.config())
    for requests in range(100):
        output, key = new_output_id(), uuid.uuid4().hex
        before = {"rank_0/a": "one", "rank_0/b": "two"}
        upload(storage, output, {"a": "one", "b": "two"})
        with monkeypatch.context() as patched:
            for name in real:
                patched.setattr(buckets.Bucket, name, counting(name))
            left = requests
            try:
                with storage.outputs.staged() as staged:
                    for each in "abc":
                        (staged / each).write_text(f"new {each}")
                    storage.outputs.publish(output, key, staged, "rank_0", "abc")
                break
            except Killed:
                pass
        storage.outputs.revert(output, key, ["rank_0/a", "rank_0/b", "rank_0/c"], set(before))
        assert content(storage, output, before, tmp_path) == before
        kept = {path.relative_to(server.bucket).as_posix() for path in server.bucket.rglob("*") if path.is_file()}
        assert {path for path in kept if output in path} == {f"{output}/{name}" for name in before}
    assert requests >= 8, "two objects are kept aside, three arrive, three are moved and three removed"


NAMES = st.sampled_from(["a", "b", "c/d"])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(uploads=st.lists(st.sets(NAMES, min_size=1), min_size=1, max_size=6), data=st.data())
def test_any_number_of_the_last_uploads_can_be_taken_back(
    tmp_path_factory: pytest.TempPathFactory, uploads: list[set[str]], data: st.DataObject
) -> None:
    storage, output = DirectoryStorage(tmp_path_factory.mktemp("storage")), new_output_id()
    states: list[dict[str, str]] = [{}]
    keys = []
    for number, names in enumerate(uploads):
        files = {name: f"{name} of {number}" for name in names}
        keys.append(upload(storage, output, files))
        states.append({**states[-1], **files})
    kept = data.draw(st.integers(0, len(uploads)))
    for number in reversed(range(kept, len(uploads))):
        earlier = {f"rank_0/{name}" for name in states[kept]}
        paths = [f"rank_0/{name}" for name in uploads[number]]
        assert storage.outputs.revert(output, keys[number], paths, earlier) == []
    directory = storage.root / output / "rank_0"
    found = {name: (directory / name).read_text() for name in (staged_files(directory) if directory.exists() else {})}
    assert found == states[kept]
    storage.outputs.delete_all_replaced(output)
    assert os.listdir(storage.root) == ([output] if states[kept] else [])
