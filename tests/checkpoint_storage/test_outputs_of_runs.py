"""Uploads of a run to every kind of storage: restarts, failures, and processes with a newer attempt."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from determined import core
from determined.checkpoint_storage.bucket import Bucket
from determined.checkpoint_storage.directory_outputs import DirectoryOutputs
from determined.core.initialize import open_run
from determined.errors import InvalidExperimentException, StoreError
from determined.experimental import Determined
from determined.store.output_records import Output
from tests.helpers.records import opened
from tests.helpers.s3_server import S3Server

Block = dict[str, Any]


@pytest.fixture(params=["directory", "s3"])
def block(request: pytest.FixtureRequest, tmp_path: Path) -> Block:
    """Return a `checkpoint_storage` block."""
    if request.param == "directory":
        return {"type": "directory", "container_path": str(tmp_path / "storage")}
    server: S3Server = request.getfixturevalue("server")
    return server.config()


@contextmanager
def run(block: Block, batches: int = 0, checkpoint: str | None = None) -> Iterator[core.Context]:
    """Start a run that continues after that progress."""
    with open_run(checkpoint_storage=block, exp_conf={"checkpoint_storage": block}) as context:
        context.begin_attempt(checkpoint=checkpoint, steps_completed=batches)
        context._outputs.begin(batches, checkpoint)
        yield context


def upload(context: core.Context, batches: int, **files: str) -> None:
    with context._outputs.upload(lambda: batches) as path:
        for name, text in files.items():
            (path / name).write_text(text)


def save(context: core.Context, batches: int) -> str:
    with context.checkpoint.store_path({"steps_completed": batches}) as (_, uuid):
        pass
    context._outputs.covered(batches)
    return uuid


def recorded() -> Output:
    with opened() as store:
        found = store.outputs.find(store.runs()[0].trial_id)
    assert found is not None
    return found


def content(tmp_path: Path, block: Block) -> dict[str, str]:
    """Return the content of a download. The keys of a bucket are not in the store, so they are passed to it here."""
    with opened() as store:
        store._database.execute("UPDATE experiments SET config = ?", [json.dumps({"checkpoint_storage": block})])
    with Determined() as determined:
        target = Path(determined.get_output(recorded().uuid).download(tmp_path / "fetched"))
    return {path.name: path.read_text() for path in (target / "rank_0").iterdir()}


def test_a_restart_finds_the_output_as_progress_says(block: Block, tmp_path: Path) -> None:
    with run(block) as first:
        upload(first, 1, a="one", b="one")
        uuid = save(first, 1)
        upload(first, 2, a="two")
        upload(first, 2, a="three", c="three")
        assert recorded().batches == 2
    assert content(tmp_path, block) == {"a": "three", "b": "one", "c": "three"}
    with run(block, 1, uuid) as second:
        assert [each.batches for each in recorded().uploads] == [1]
        assert content(tmp_path, block) == {"a": "one", "b": "one"}
        upload(second, 2, a="again")
        uuid = save(second, 2)
        upload(second, 3, a="late")
        save(second, 3)
    assert content(tmp_path, block) == {"a": "late", "b": "one"}
    with run(block, 2, uuid):
        assert content(tmp_path, block) == {"a": "late", "b": "one"}, "what it replaced was removed by later progress"


def fail_after(count: int, patched: pytest.MonkeyPatch, block: Block, *, lasting: bool) -> None:
    """Let moves of files, or copies by the server, fail after some of them: once, or always."""
    owner, name = (Bucket, "copy") if block["type"] == "s3" else (os, "replace")
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count + 1 or (lasting and calls > count):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    patched.setattr(owner, name, call)


def test_an_upload_that_fails_half_way_leaves_everything_as_it_was(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run(block) as context:
        upload(context, 1, a="one", b="one")
        with monkeypatch.context() as patched:
            fail_after(3 if block["type"] == "s3" else 1, patched, block, lasting=False)
            with pytest.raises(OSError, match="an upload of rank 0 was not stored: No space left on device"):
                upload(context, 2, a="two", b="two", c="two")
        assert [each.batches for each in recorded().uploads] == [1]
        assert content(tmp_path, block) == {"a": "one", "b": "one"}
        upload(context, 2, a="two")
    assert content(tmp_path, block) == {"a": "two", "b": "one"}


def test_what_a_failed_upload_could_not_remove_is_removed_at_the_restart(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run(block) as context:
        upload(context, 1, a="one", b="one")
        with monkeypatch.context() as patched:
            fail_after(4 if block["type"] == "s3" else 2, patched, block, lasting=True)
            with pytest.raises(OSError, match="an upload of rank 0 was not stored"):
                upload(context, 2, a="two", b="two", c="two")
        upload(context, 2, a="after")  # the program continues nevertheless
        uuid = save(context, 2)
    with run(block, 2, uuid):
        assert content(tmp_path, block) == {"a": "after", "b": "one"}


def test_a_process_that_was_overtaken_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"type": "directory", "container_path": str(tmp_path / "storage")}
    real = DirectoryOutputs.publish

    def publish(self: DirectoryOutputs, *args: Any) -> bool:
        with opened() as store:  # a newer attempt removes what was not finished, while the files are being moved
            (pending,) = [each for each in store.outputs.all_uploads(1) if not each.finished]
            store.outputs.remove_upload(pending.key)
        return real(self, *args)

    with run(block) as context:
        upload(context, 1, a="one")
        with monkeypatch.context() as patched:
            patched.setattr(DirectoryOutputs, "publish", publish)
            with pytest.raises(StoreError, match="trial 1 was started again, and this upload was removed"):
                upload(context, 2, a="late", b="late")
        assert content(tmp_path, block) == {"a": "one"}
        with opened() as store:
            store._database.execute("UPDATE trials SET attempt = attempt + 1")
        with pytest.raises(StoreError, match="trial 1 was started again: attempt 1 can upload nothing any more"):
            upload(context, 2, a="late")
    assert not [path for path in (tmp_path / "storage").rglob("*") if path.is_file() and path.read_text() == "late"]


def test_an_output_stays_in_one_storage(tmp_path: Path) -> None:
    with run({"type": "directory", "container_path": str(tmp_path / "one")}) as context:
        upload(context, 1, a="one")
        uuid = save(context, 1)
    with pytest.raises(InvalidExperimentException, match=f"is in {tmp_path}/one, and this run would write to"):
        with run({"type": "directory", "container_path": str(tmp_path / "two")}, 1, uuid):
            pass


def test_uploads_need_a_batch_process() -> None:
    with core.init() as context, pytest.raises(RuntimeError, match="inside torch_batch_process"):
        upload(context, 1, a="one")
