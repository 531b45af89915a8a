"""A process that is killed between publishing a checkpoint and recording it: the next one records it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined import core
from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.build import build_from_argument
from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.experiment.checkpoints.of_trials import TrialCheckpoints
from determined.experiment.deletion import delete_experiment
from determined.experiment.runner.settings import settings_of
from determined.store.open import open_store
from determined.store.rows import PublishingRow
from determined.store.store import Store
from determined.store.workers.local_worker_store import LocalWorkerStore
from determined.store.workers.unrecorded import recover_unrecorded
from determined.store.workers.writer import Writer
from tests.helpers.records import announced, opened, runs
from tests.helpers.s3_server import S3Server
from tests.store.experiments import begin_managed, with_trials

PROGRAM = """
import json, os, signal, sys
from determined import core
from determined.core.supervision.checkpoint_records import CheckpointRecords

storage, last, moment = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with core.init(checkpoint_storage=storage, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    known = context.checkpoint.of_the_last_run()
    steps = context.checkpoint.get_metadata(known[0])["steps_completed"] if known else 0
    context.begin_attempt(checkpoint=known[0] if known else None, steps_completed=steps)

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "before the row":  # it is published
        CheckpointRecords.report = killed
    elif moment == "before the rename":
        context.checkpoint._storage.commit = killed
    while steps < last:
        steps += 1
        context.train.report_training_metrics(steps, {"step": steps})
        with context.checkpoint.store_path({"steps_completed": steps}, with_manifest=True) as (path, _):
            (path / "weights").write_text(str(steps))
"""


def live(directory: Path, storage: Any, last: int, moment: str = "") -> None:
    script = directory / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(storage), str(last), moment], capture_output=True, text=True
    )
    assert done.returncode == (-signal.SIGKILL if moment else 0), done.stderr


def on_disk(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if (path / "metadata.json").is_file())


def check(root: Path, data_home: Path, last: int) -> None:
    rows = announced(data_home)
    assert on_disk(root) == sorted(row.checkpoint_id for row in rows)
    assert sorted(row.steps_completed for row in rows) == list(range(1, last + 1))
    assert all(row.resources["weights"] == len(str(row.steps_completed)) for row in rows)
    (run,) = runs()
    with opened() as store:
        reported = [(row.steps_completed, row.metrics) for row in store.metrics(run.trial_id)]
        assert store._database.execute("SELECT * FROM publishing") == []
    assert reported == [(step, {"step": step}) for step in range(1, last + 1)]


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.thorough)])
def test_files_and_rows_are_the_same_after_every_kill(kills: int, tmp_path: Path, data_home: Path) -> None:
    root = tmp_path / "root"
    for number in range(kills):
        # Each life resumes from the checkpoint that the previous one could not record: none is done twice.
        live(tmp_path, str(root), kills + 1, "before the row")
        if number % 2:
            live(tmp_path, str(root), kills + 1, "before the rename")
    live(tmp_path, str(root), kills + 1)
    check(root, data_home, kills + 1)


def test_the_same_in_an_object_store(server: S3Server, tmp_path: Path, data_home: Path) -> None:
    for _ in range(2):
        live(tmp_path, server.config(), 3, "before the row")
    live(tmp_path, server.config(), 3)
    check(server.bucket, data_home, 3)


def left(tmp_path: Path) -> Path:
    """Create a published checkpoint that is not recorded."""
    live(tmp_path, str(tmp_path / "root"), 1, "before the row")
    (uuid,) = on_disk(tmp_path / "root")
    return tmp_path / "root" / uuid


def test_a_damaged_one_is_removed_and_strangers_stay(tmp_path: Path, data_home: Path) -> None:
    damaged = left(tmp_path)
    (damaged / "weights").write_text("x")
    origin = manifest.origin(damaged, "it")
    (run,) = runs()
    assert (origin["trial"], origin["attempt"]) == (run.trial_id, 1)
    others = [damaged.with_name(f"00000000-0000-4000-8000-00000000000{number}") for number in range(2)]
    for other, whose in zip(others, ({**origin, "store": "another"}, None), strict=True):
        other.mkdir()
        (other / "metadata.json").write_text('{"steps_completed": 1}')
        manifest.write(other, origin=whose)
        (other / "metadata.json").write_text("{}")
    live(tmp_path, str(damaged.parent), 1)
    assert not damaged.exists()
    assert all(other.is_dir() for other in others)
    assert sorted([*(other.name for other in others), announced(data_home)[-1].checkpoint_id]) == on_disk(
        damaged.parent
    )


def test_it_is_deleted_with_its_experiment(tmp_path: Path) -> None:
    published = left(tmp_path)
    stranger = published.with_name("00000000-0000-4000-8000-000000000000")
    stranger.mkdir()
    with opened() as store:
        done = delete_experiment(store, runs()[0].experiment_id)
        assert store.runs() == []
    assert done.checkpoints == (published.name,)
    assert [path.name for path in published.parent.iterdir()] == [stranger.name]


def test_another_store_leaves_it_alone(tmp_path: Path, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = left(tmp_path)
    monkeypatch.setenv("DET_STORE", str(tmp_path / "other.sqlite"))
    live(tmp_path, str(published.parent), 1)
    assert published.is_dir()
    with opened() as store:
        assert [row.checkpoint_id for run in store.runs() for row in store.checkpoints(run.trial_id)] != [
            published.name
        ]
    monkeypatch.delenv("DET_STORE")
    assert announced(data_home) == []


def test_any_later_run_with_the_same_storage_records_it(tmp_path: Path, data_home: Path) -> None:
    published = left(tmp_path)
    with core.init(checkpoint_storage=str(published.parent)) as context:
        context.begin_attempt()
    (row,) = announced(data_home)
    assert (row.checkpoint_id, row.steps_completed, row.attempt) == (published.name, 1, 1)
    assert row.trial_id == runs()[0].trial_id != runs()[1].trial_id


def test_a_program_of_the_core_api_records_it_with_its_own_checkpoint(tmp_path: Path, data_home: Path) -> None:
    published = left(tmp_path)
    with core.init(checkpoint_storage=str(published.parent)) as context:
        with context.checkpoint.store_path({"steps_completed": 2}) as (path, own):
            (path / "weights").write_text("2")
    assert sorted(row.checkpoint_id for row in announced(data_home)) == sorted([published.name, own])
    assert sorted([published.name, own]) == on_disk(published.parent)
    with opened() as store:
        assert store._database.execute("SELECT * FROM publishing") == []


def test_a_process_that_lives_is_not_interfered_with(tmp_path: Path) -> None:
    with core.init(checkpoint_storage=str(tmp_path)) as first, core.init(checkpoint_storage=str(tmp_path)) as second:
        first.begin_attempt()
        first._supervisor.checkpoints.publish("in-the-making")
        second.begin_attempt()
        with opened() as store:
            assert store.publishing.unrecorded(str(tmp_path)) == []
            noted = store._database.execute("SELECT uuid FROM publishing")
        assert noted == [("in-the-making",)]


def test_the_runner_continues_from_it(tmp_path: Path) -> None:
    storage = build_from_argument(str(tmp_path / "root"))
    block = {"type": "directory", "container_path": str(tmp_path / "root")}
    writer = Writer(open_store, patience=10)

    def prepare(store: Store) -> tuple[int, int]:
        lease, (trial_id,) = with_trials(store, 1)
        attempt = begin_managed(store, lease, trial_id)
        origin = store.publishing.origin(trial_id, attempt.number).plain()
        staged = storage.stage("published")
        (staged / "metadata.json").write_text('{"steps_completed": 7}')
        manifest.write(staged, origin=origin)
        store.write([PublishingRow("published", trial_id, attempt.number, mask_secrets(storage.name), 1.0)])
        store.write([PublishingRow("never-published", trial_id, attempt.number, mask_secrets(storage.name), 1.0)])
        storage.commit("published")
        return lease.experiment_id, trial_id

    experiment_id, trial_id = writer.query(prepare)

    searcher = {"name": "single", "metric": "error"}
    config = StoredConfig({"entrypoint": "true", "searcher": searcher, "checkpoint_storage": block})
    checkpoints = TrialCheckpoints(experiment_id, settings_of(config), writer)
    assert checkpoints.holds(trial_id, 7)
    assert checkpoints.newest_good(trial_id) == ("published", 7)
    assert writer.query(lambda store: store.publishing.unrecorded(storage.name, trial_id)) == []
    writer.close()


def test_a_storage_that_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    published = left(tmp_path)

    def fails(uuid: str, origin: dict[str, Any]) -> None:
        raise OSError("the network is down")

    writer = Writer(open_store, patience=10)
    with pytest.raises(OSError, match="network"):
        recover_unrecorded(writer.queued(LocalWorkerStore), str(published.parent), fails)
    (found,) = writer.query(lambda store: store.publishing.unrecorded(str(published.parent)))
    assert found.checkpoint_id == published.name
    writer.close()


def test_every_store_has_a_separate_identity(tmp_path: Path) -> None:
    identities = set()
    for name in ("a", "b", "a"):
        store = open_store(tmp_path / name)
        identities.add(store.publishing._own_identity())
        store.close()
    assert len(identities) == 2
