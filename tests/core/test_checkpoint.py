"""`CheckpointContext` on one rank and on several, and checkpoints that must not appear."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from determined import core, paths
from determined.errors import CheckpointNotFound
from tests.helpers import records, warm
from tests.helpers.ranks import run_ranks

STEPS = {"steps_completed": 1}


@pytest.fixture
def context() -> Iterator[core.Context]:
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "sub" / "empty").mkdir(parents=True)
    (directory / "sub" / "a").write_text("a")
    (directory / "b").write_text("b")
    return directory


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) + ("/" if path.is_dir() else "") for path in directory.rglob("*"))


def left_behind() -> list[str]:
    """Return the names of all files in the checkpoint storage."""
    return sorted(os.listdir(paths.checkpoints_dir()))


def test_upload_and_download(context: core.Context, source: Path, tmp_path: Path) -> None:
    before = tree(source)
    storage_id = context.checkpoint.upload(source, {**STEPS, "who": {"me": [1, None]}})
    assert str(uuid.UUID(storage_id)) == storage_id
    assert tree(source) == before  # nothing is written into the source
    stored = paths.checkpoints_dir() / storage_id
    assert tree(stored) == ["b", "metadata.json", "sub/", "sub/a", "sub/empty/"]
    assert (stored / "metadata.json").read_text() == json.dumps({**STEPS, "who": {"me": [1, None]}}, indent=2)
    assert context.checkpoint.get_metadata(storage_id) == {**STEPS, "who": {"me": [1, None]}}
    context.checkpoint.download(storage_id, tmp_path / "new" / "place")
    assert tree(tmp_path / "new" / "place") == tree(stored)
    with context.checkpoint.restore_path(storage_id) as path:
        assert path == stored
    (record,) = records.announced(paths.data_dir().parent)
    assert record.checkpoint_id == storage_id
    assert record.metadata == {**STEPS, "who": {"me": [1, None]}}
    assert record.resources["sub/a"] == 1
    assert record.resources["sub/"] == 0
    assert record.storage == str(paths.checkpoints_dir())


def test_store_path(context: core.Context) -> None:
    metadata: dict[str, Any] = dict(STEPS)
    with context.checkpoint.store_path(metadata) as (path, storage_id):
        (path / "file").write_text("x")
        metadata["late"] = np.float32(0.5)
        with pytest.raises(CheckpointNotFound):
            context.checkpoint.get_metadata(storage_id)
    assert context.checkpoint.get_metadata(storage_id) == {**STEPS, "late": 0.5}
    assert left_behind() == [storage_id]


def test_selectors_spare_the_metadata(context: core.Context, source: Path, tmp_path: Path) -> None:
    storage_id = context.checkpoint.upload(source, STEPS, selector=lambda name: name == "sub/a")
    assert tree(paths.checkpoints_dir() / storage_id) == ["metadata.json", "sub/", "sub/a"]
    context.checkpoint.download(storage_id, tmp_path / "part", selector=lambda name: name == "metadata.json")
    assert tree(tmp_path / "part") == ["metadata.json"]


def test_the_users_own_metadata_file_is_not_taken_for_ours(context: core.Context, source: Path) -> None:
    (source / "metadata.json").write_text('{"steps_completed": 99}')
    storage_id = context.checkpoint.upload(source, STEPS)
    assert context.checkpoint.get_metadata(storage_id) == STEPS
    assert json.loads((source / "metadata.json").read_text()) == {"steps_completed": 99}


def test_restore_warns_about_a_selector_only_when_there_is_one(
    context: core.Context, source: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage_id = context.checkpoint.upload(source, STEPS)
    with context.checkpoint.restore_path(storage_id):
        assert caplog.text == ""
    with context.checkpoint.restore_path(storage_id, selector=lambda name: False):
        assert "selector" in caplog.text


@pytest.mark.parametrize(
    ("metadata", "error", "words"),
    [
        (None, ValueError, "steps_completed"),
        ({}, ValueError, "steps_completed"),
        ({"steps_completed": "1"}, TypeError, "steps_completed.*'1'"),
        ({"steps_completed": True}, TypeError, "steps_completed"),
        ({"steps_completed": 1, "bad": object()}, TypeError, "metadata.*'bad'"),
        ({"steps_completed": 1, ("a",): 1}, TypeError, "metadata"),
        ([1], TypeError, "metadata"),
    ],
)
def test_bad_metadata_is_refused_before_anything_is_written(
    context: core.Context, source: Path, metadata: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        context.checkpoint.upload(source, metadata)
    with pytest.raises(error, match=words), context.checkpoint.store_path(metadata):
        raise AssertionError("the block must not be entered")
    assert left_behind() == []


def test_a_failure_in_the_block_leaves_nothing(context: core.Context) -> None:
    def fail() -> None:
        with context.checkpoint.store_path(STEPS) as (path, _):
            (path / "half").write_text("x")
            raise KeyError("mine")

    with pytest.raises(KeyError):
        fail()
    assert left_behind() == []
    assert records.announced(paths.data_dir().parent) == []


def test_a_source_that_is_none(context: core.Context, tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"ckpt_dir.*missing"):
        context.checkpoint.upload(tmp_path / "missing", STEPS)
    with pytest.raises(ValueError, match="ckpt_dir"):
        context.checkpoint.upload(None, STEPS)
    assert left_behind() == []


def test_links_in_the_source_become_files(context: core.Context, source: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("linked")
    (source / "link").symlink_to(tmp_path / "target")
    storage_id = context.checkpoint.upload(source, STEPS)
    stored = paths.checkpoints_dir() / storage_id / "link"
    assert not stored.is_symlink()
    assert stored.read_text() == "linked"
    (source / "sub" / "loop").symlink_to(source)
    with pytest.raises(ValueError, match="loop"):
        context.checkpoint.upload(source, STEPS)


@pytest.mark.parametrize("name", ["", ".", "..", "../runs", "no-such-id", "a\0b", "x" * 300])
def test_names_that_are_no_checkpoint(context: core.Context, tmp_path: Path, name: str) -> None:
    use = context.checkpoint
    with pytest.raises(CheckpointNotFound, match="checkpoint"):
        use.get_metadata(name)
    with pytest.raises(CheckpointNotFound):
        use.delete(name)
    with pytest.raises(CheckpointNotFound):
        use.download(name, tmp_path / "x")
    with pytest.raises(CheckpointNotFound), use.restore_path(name):
        pass
    assert not (tmp_path / "x").exists()


def test_delete(context: core.Context, source: Path) -> None:
    storage_id = context.checkpoint.upload(source, STEPS)
    context.checkpoint.delete(storage_id)
    assert left_behind() == []
    with pytest.raises(CheckpointNotFound):
        context.checkpoint.get_metadata(storage_id)


def test_modes_are_checked(context: core.Context, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="download_mode"):
        context.checkpoint.download("x", tmp_path, "NoSharedDownload")  # type: ignore[arg-type]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from determined import core
with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    context.checkpoint.upload(sys.argv[1], {"steps_completed": 1})
"""


def test_a_full_disk_is_reported_with_the_systems_message_and_leaves_nothing(source: Path) -> None:
    (source / "big").write_bytes(b"x" * 10_000)
    done = warm.run([sys.executable, "-c", FULL_DISK, str(source)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "was not saved: File too large" in done.stderr.splitlines()[-1]
    assert "checkpoint" in done.stderr.splitlines()[-1]
    assert left_behind() == []


def open_ranks() -> core.Context:
    return core.init(
        distributed=core.DistributedContext.from_torch_distributed(),
        tensorboard_mode=core.TensorboardMode.MANUAL,
    )


def said(action: Any) -> str:
    try:
        action()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "no error"


def upload_in_parts(root: str) -> dict[str, Any]:
    with open_ranks() as context:
        use, rank = context.checkpoint, context.distributed.rank
        own = Path(root) / f"part-{rank}"
        own.mkdir()
        (own / f"only-{rank}").write_text(str(rank))
        (own / "same").write_text("equal on both")
        result: dict[str, Any] = {}
        parts = {**({"steps_completed": 3} if rank == 0 else {}), "by": {str(rank): rank}}
        storage_id = use.upload(own, parts, shard=True)
        result["merged"] = [tree(paths.checkpoints_dir() / storage_id), use.get_metadata(storage_id)]

        result["one sided"] = tree(paths.checkpoints_dir() / use.upload(own if rank == 1 else None, STEPS, shard=True))

        both = Path(root) / "part-0"
        result["one directory"] = tree(paths.checkpoints_dir() / use.upload(both, STEPS, shard=True))
        result["selected"] = tree(
            paths.checkpoints_dir() / use.upload(own, STEPS, shard=True, selector=lambda name: name != "same")
        )
        before = left_behind()
        result["nothing"] = said(lambda: use.upload(None, STEPS, shard=True))
        result["no steps"] = said(lambda: use.upload(own, {}, shard=True))
        result["metadata"] = said(lambda: use.upload(own, {**STEPS, "x": rank}, shard=True))
        (own / "same").write_text(f"not equal: {rank}")
        result["files"] = said(lambda: use.upload(own, STEPS, shard=True))
        result["missing"] = said(lambda: use.upload(own if rank == 0 else own / "none", STEPS, shard=True))
        result["alone"] = said(lambda: use.upload(own, STEPS)) if rank == 1 else None
        context.distributed.allgather(None)
        result["left"] = left_behind() == before
        return result


def test_upload_by_two_ranks(tmp_path: Path) -> None:
    first, second = (rank.value for rank in run_ranks(upload_in_parts, args=[str(tmp_path)]))
    for value in (first, second):
        assert value["merged"] == [
            ["metadata.json", "only-0", "only-1", "same"],
            {"steps_completed": 3, "by": {"0": 0, "1": 1}},
        ]
        assert value["one sided"] == ["metadata.json", "only-1", "same"]
        assert value["one directory"] == ["metadata.json", "only-0", "same"]
        assert value["selected"] == ["metadata.json", "only-0", "only-1"]
        assert value["nothing"].startswith("RuntimeError: no rank")
        assert value["no steps"].startswith("ValueError: ")
        assert "steps_completed" in value["no steps"]
        assert value["metadata"].startswith("RuntimeError: ")
        assert "'x' from ranks [0, 1]" in value["metadata"]
        assert value["files"].startswith("RuntimeError: ")
        assert "'same' from ranks [0, 1]" in value["files"]
        assert value["left"] is True
    assert first["missing"].startswith("DistributedError: rank 1")
    assert second["missing"].startswith("NotADirectoryError")
    assert second["alone"].startswith("RuntimeError")
    assert "rank 1" in second["alone"]


def store_together(root: str) -> dict[str, Any]:
    with open_ranks() as context:
        use, rank = context.checkpoint, context.distributed.rank
        result: dict[str, Any] = {}
        with use.store_path({**STEPS, "by": {str(rank): 1}}, shard=True) as (path, storage_id):
            (path / f"file-{rank}").write_text("x")
        result["stored"] = [tree(paths.checkpoints_dir() / storage_id), use.get_metadata(storage_id)]

        def failing() -> None:
            with use.store_path(STEPS, shard=True) as (path, _):
                (path / f"file-{rank}").write_text("x")
                if rank == 1:
                    raise KeyError("mine")

        before = left_behind()
        result["failed"] = said(failing)
        context.distributed.allgather(None)
        result["left"] = left_behind() == before

        target = Path(root) / "downloaded"
        use.download(storage_id, target, selector=lambda name: name == f"file-{rank}")
        result["shared"] = tree(target)
        own = Path(root) / f"own-{rank}"
        use.download(storage_id, own, core.DownloadMode.NoSharedDownload, selector=lambda n: n == f"file-{rank}")
        result["own"] = tree(own)
        with use.restore_path(storage_id) as path:
            result["restored"] = path == paths.checkpoints_dir() / storage_id
        result["unknown"] = said(lambda: use.download("unknown", target))
        return result


def test_store_and_fetch_by_two_ranks(tmp_path: Path) -> None:
    first, second = (rank.value for rank in run_ranks(store_together, args=[str(tmp_path)]))
    for rank, value in enumerate((first, second)):
        assert value["stored"] == [
            ["file-0", "file-1", "metadata.json"],
            {"steps_completed": 1, "by": {"0": 1, "1": 1}},
        ]
        assert value["left"] is True
        assert value["shared"] == ["file-0", "file-1"]
        assert value["own"] == [f"file-{rank}"]
        assert value["restored"] is True
        assert "unknown" in value["unknown"]
    assert first["failed"].startswith("DistributedError: rank 1")
    assert "mine" in first["failed"]
    assert second["failed"].startswith("KeyError")
