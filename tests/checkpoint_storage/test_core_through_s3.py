"""The Core API with checkpoints on an S3 server: one rank, two ranks of one machine, two machines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from determined import core, paths
from determined.errors import CheckpointNotFound
from tests.helpers.ranks import run_ranks
from tests.helpers.records import announced
from tests.helpers.s3_server import S3Server

STEPS = {"steps_completed": 1}


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) + ("/" if path.is_dir() else "") for path in directory.rglob("*"))


def left_here() -> list[str]:
    return os.listdir(paths.data_dir() / "cloud")


def test_one_rank(server: S3Server, tmp_path: Path, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "a").write_text("a")
    (source / "b").write_text("b")
    storage = server.config(prefix="runs")
    with core.init(checkpoint_storage=storage, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        use = context.checkpoint
        storage_id = use.upload(source, {**STEPS, "who": ["me"]})
        assert use.get_metadata(storage_id) == {**STEPS, "who": ["me"]}
        stored = (server.bucket / "runs" / storage_id / "metadata.json").read_text()
        assert stored == json.dumps({**STEPS, "who": ["me"]}, indent=2)
        use.download(storage_id, tmp_path / "all")
        assert tree(tmp_path / "all") == ["b", "metadata.json", "sub/", "sub/a", "sub/empty/"]
        use.download(storage_id, tmp_path / "some", selector=lambda name: name == "sub/a")
        assert tree(tmp_path / "some") == ["sub/", "sub/a"]
        with use.restore_path(storage_id, selector=lambda name: name.startswith("sub/")) as path:
            assert tree(path) == ["sub/", "sub/a", "sub/empty/"]
        assert "selector" not in caplog.text  # here it has an effect
        partial = use.upload(source, STEPS, selector=lambda name: name == "b")
        assert sorted(use._storage.resources(partial)) == ["b", "metadata.json"]
        use.delete(storage_id)
        with pytest.raises(CheckpointNotFound):
            use.get_metadata(storage_id)
    assert left_here() == []
    assert [row.checkpoint_id for row in announced(data_home)][-1] == partial
    assert announced(data_home)[-1].resources == {"b": 1, "metadata.json": 26}
    told = (data_home / "determined").rglob("*")
    assert not any(storage["secret_key"].encode() in file.read_bytes() for file in told if file.is_file())


def together(config: dict[str, Any], root: str, machines: bool) -> dict[str, Any]:
    distributed = core.DistributedContext.from_torch_distributed()
    rank = distributed.rank
    if machines:
        os.environ["XDG_DATA_HOME"] = f"{root}/machine-{rank}"
    result: dict[str, Any] = {}
    source = Path(root) / f"source-{rank}"
    source.mkdir()
    (source / f"file-{rank}").write_text(f"{rank}")
    (source / "same").write_text("same")
    with core.init(distributed=distributed, checkpoint_storage=config) as context:
        use = context.checkpoint
        metadata = {**STEPS, "by": {str(rank): 1}}
        uploaded = use.upload(source, metadata, shard=True)
        result["uploaded"] = [use._storage.resources(uploaded), use.get_metadata(uploaded)]
        with use.store_path(metadata, shard=True) as (path, stored):
            (path / f"file-{rank}").write_text(f"{rank}")
        result["stored"] = [use._storage.resources(stored), use.get_metadata(stored)]

        with use.restore_path(uploaded, selector=lambda name: name == f"file-{rank}") as path:
            result["restored"] = [tree(path), str(path)]
        distributed.allgather(None)
        result["gone"] = not path.exists()
        target = Path(root) / f"target-{rank if machines else 'shared'}"
        use.download(uploaded, target, selector=lambda name: name == f"file-{rank}")
        result["downloaded"] = tree(target)

        result["error"] = ""
        try:
            with use.store_path(metadata, shard=True) as (path, _):
                (path / f"half-{rank}").write_text("x")
                if rank == 1:
                    raise KeyError("mine")
        except Exception as error:  # noqa: BLE001  (looked at by the test)
            result["error"] = f"{type(error).__name__}: {error}"
        distributed.allgather(None)
        result["left"] = left_here()
    return result


@pytest.mark.parametrize("machines", [False, True], ids=["two ranks", "two machines"])
def test_two_ranks(server: S3Server, tmp_path: Path, machines: bool) -> None:
    arguments = [server.config(prefix="runs"), str(tmp_path), machines]
    nodes = 2 if machines else 1
    first, second = (rank.value for rank in run_ranks(together, args=arguments, nodes=nodes, timeout=90))
    metadata = {**STEPS, "by": {"0": 1, "1": 1}}
    size = len(json.dumps(metadata, indent=2))
    for rank, value in enumerate((first, second)):
        assert value["uploaded"] == [{"file-0": 1, "file-1": 1, "metadata.json": size, "same": 4}, metadata]
        assert value["stored"] == [{"file-0": 1, "file-1": 1, "metadata.json": size}, metadata]
        wanted = [f"file-{rank}"] if machines else ["file-0", "file-1"]
        assert value["restored"][0] == wanted
        assert value["gone"] is True
        assert value["downloaded"] == wanted
        assert "mine" in value["error"]
        assert value["left"] == []
    assert (first["restored"][1] == second["restored"][1]) is not machines  # a machine fetches it once
    assert len({name.split("/")[1] for name in server.objects()}) == 2
