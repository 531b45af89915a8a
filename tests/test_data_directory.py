"""DET_DATA_DIR moves all data, and data in the earlier layout are still found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from determined import core, paths, pytorch
from determined.cli.doctor.data import check_data
from determined.errors import CheckpointNotFound, InvalidConfigurationException
from tests.cli.det_command import det_ok, run_det
from tests.helpers.records import announced, opened
from tests.helpers.trials import LineTrial, fit
from tests.pytorch.experimental.test_inference_outputs import process

CONFIG = """
name: moved
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1}
"""
PROGRAM = """
from determined import core
with core.init() as context:
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
        (path / "weights").write_text("1")
    context.train.report_validation_metrics(1, {"loss": 0.5})
"""


@pytest.fixture
def work_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a user."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("DET_PROGRESS", "0")
    return directory


def test_one_variable_moves_everything(
    tmp_path: Path, data_home: Path, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone run and a search, both with their data directory inside the project whose code they copy."""
    data = work_dir / "data"
    monkeypatch.setenv("DET_DATA_DIR", str(data))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (work_dir / "config.yaml").write_text(CONFIG)
    (work_dir / "train.py").write_text(PROGRAM)
    fit(LineTrial, max_length=pytorch.Batch(1), options={"name": "by hand"})
    done = run_det("e", "create", "config.yaml", ".", "-f", "--slots", "1")
    assert done.returncode == 0, done.stderr

    found = {path.name for path in data.iterdir()} - {"store.sqlite-wal", "store.sqlite-shm"}
    assert {"store.sqlite", "checkpoints", "experiments", "runs"} <= found <= set(paths.CONTENTS)
    with opened() as store:
        rows = [row for experiment in store.experiments.list() for row in store.experiments.checkpoints(experiment.id)]
    assert len(rows) == 2
    for row in rows:
        assert row.storage == str(data / "checkpoints")
        assert (data / "checkpoints" / row.checkpoint_id / "metadata.json").is_file()
    assert not (tmp_path / "home").exists()
    assert not data_home.exists()
    copied = [path.relative_to(data) for path in data.rglob("store.sqlite")]
    assert copied == [Path("store.sqlite")], "no copy of the code contains the data directory"
    assert all(path.stat().st_mode & 0o077 == 0 for path in data.iterdir())

    directory, _, storage = check_data()
    assert directory.found.startswith(f"{data} (set by DET_DATA_DIR): store.sqlite, checkpoints, ")
    assert storage.found.startswith(f"{data / 'checkpoints'}, ")


def test_the_store_can_still_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_DATA_DIR", str(tmp_path / "data"))
    assert paths.store_place() == str(tmp_path / "data" / "store.sqlite")
    monkeypatch.setenv("DET_STORE", "postgresql://host/db")
    assert paths.store_place() == "postgresql://host/db"
    assert paths.checkpoints_dir() == tmp_path / "data" / "checkpoints"


def test_a_relative_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_DATA_DIR", "data")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfigurationException, match=r"DET_DATA_DIR must be an absolute path, got 'data'"):
        paths.data_dir()
    assert os.listdir(tmp_path) == []
    monkeypatch.setenv("DET_DATA_DIR", "~/x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.data_dir() == tmp_path / "x"


class TestEarlierLayout:
    """Checkpoints of standalone runs used to be at the top of the data directory."""

    @pytest.fixture
    def earlier(self, data_home: Path) -> str:
        """Store a checkpoint as earlier versions did, and return its id."""
        fit(LineTrial, max_length=pytorch.Batch(2), options={"checkpoint_storage": str(paths.data_dir()), "name": "a"})
        (row,) = announced(data_home)
        assert (paths.data_dir() / row.checkpoint_id / "metadata.json").is_file()
        return row.checkpoint_id

    def test_the_next_run_continues_from_it(self, earlier: str, data_home: Path) -> None:
        trial = fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest", options={"name": "a"})
        assert trial.batch_indices == [2]
        (newest,) = [row for row in announced(data_home) if row.checkpoint_id != earlier]
        assert (paths.checkpoints_dir() / newest.checkpoint_id).is_dir()

    def test_commands_and_the_core_api_find_and_delete_it(
        self, earlier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        det_ok("checkpoint", "download", earlier, "-o", "got")
        assert (tmp_path / "got" / "state_dict.pth").is_file()
        with core.init() as context:
            assert context.checkpoint.get_metadata(earlier)["steps_completed"] == 2
            context.checkpoint.download(earlier, tmp_path / "again")
            context.checkpoint.delete(earlier)
            for name in ("runs", "checkpoints", "experiments"):
                with pytest.raises(CheckpointNotFound):
                    context.checkpoint.delete(name)
        assert not (paths.data_dir() / earlier).exists()
        assert paths.runs_dir().is_dir()
        assert not list(paths.data_dir().glob(".deleted*"))

    def test_det_deletes_it(self, earlier: str) -> None:
        det_ok("experiment", "delete", "1", "--yes")
        assert not (paths.data_dir() / earlier).exists()

    def test_unfinished_checkpoints_there_are_removed(self, data_home: Path) -> None:
        left = paths.data_dir() / ".staging-0"
        left.mkdir()
        with core.init():
            assert not left.exists()

    def test_batch_inference_adds_to_the_output_there(self, data_home: Path) -> None:
        old = str(paths.data_dir())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paths, "checkpoints_dir", paths.data_dir)
            process(4, stop_at=2, batch_size=1)
        (output,) = paths.data_dir().glob("output-*")
        process(4, batch_size=1, latest_checkpoint=announced(data_home)[-1].checkpoint_id)
        found = {path.name: json.loads(path.read_text()) for path in output.rglob("*.json")}
        assert found == {f"batch_{number}.json": [number] for number in range(4)}
        with opened() as store:
            outputs = [store.outputs.find(run.trial_id) for run in store.runs()]
        assert [one.storage for one in outputs if one is not None] == [old]
