"""Programs that use a checkpoint while another process removes it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from determined import core
from determined.errors import CheckpointInUse, CheckpointNotFound, StoreError
from determined.experimental import Determined, client
from determined.experimental.client import CheckpointState
from tests.helpers.records import opened

_CHECKPOINTS = 120


def test_a_version_that_is_registered_during_a_clean_up_is_complete_or_refused(home: Path) -> None:
    registered: list[str] = []
    refused: list[str] = []
    over = threading.Event()
    ready = threading.Event()

    def register_what_comes() -> None:
        with Determined() as determined:
            model = determined.create_model("net")
            ready.set()
            seen: set[str] = set()
            while not over.is_set():
                for experiment in determined.list_experiments():
                    for found in experiment.list_checkpoints(client.CheckpointSortBy.BATCH_NUMBER, client.OrderBy.DESC):
                        if found.uuid in seen or len(seen) % 2 != found.metadata["steps_completed"] % 2:
                            continue
                        seen.add(found.uuid)
                        try:
                            model.register_version(found.uuid)
                            registered.append(found.uuid)
                        except StoreError as error:
                            refused.append(str(error))

    registrar = threading.Thread(target=register_what_comes)
    registrar.start()
    assert ready.wait(30)
    storage = {"type": "directory", "container_path": str(home / "saved"), "save_trial_latest": 1, "save_trial_best": 0}
    with core.init(checkpoint_storage=storage) as context:
        for step in range(_CHECKPOINTS):
            with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                (path / "weights").write_text(str(step))
    over.set()
    registrar.join()

    assert registered, "nothing was tried"
    for uuid in registered:
        found = client.get_checkpoint(uuid)
        assert found.state is CheckpointState.COMPLETED
        assert (home / "saved" / uuid / "weights").read_text() == str(found.metadata["steps_completed"])
    assert all("is DELETED: only a complete one can be registered" in reason for reason in refused)
    left = {path.name for path in (home / "saved").iterdir() if not path.name.startswith(".")}
    (experiment,) = client.list_experiments()
    assert left == {found.uuid for found in experiment.list_checkpoints()}, "every surplus one is gone"
    assert set(registered) <= left


def test_a_clean_up_that_was_cut_short_is_finished_by_the_next_one(home: Path) -> None:
    storage = {"type": "directory", "container_path": str(home / "saved"), "save_trial_latest": 2, "save_trial_best": 0}
    with core.init(checkpoint_storage=storage) as context:
        uuids: list[str] = []
        for step in range(4):
            if step == 3:  # as a process that is killed before the files are deleted
                with opened() as store:
                    assert store.upkeep.mark_unused_deleted([uuids[1]]) == [uuids[1]]
                assert (home / "saved" / uuids[1]).is_dir()
            with context.checkpoint.store_path({"steps_completed": step}) as (path, uuid):
                (path / "weights").write_text(str(step))
            uuids.append(uuid)
    left = {path.name for path in (home / "saved").iterdir() if not path.name.startswith(".")}
    assert left == set(uuids[2:])
    assert client.get_checkpoint(uuids[1]).resources == {}


def test_a_program_cannot_delete_its_checkpoint_once_it_is_registered(home: Path) -> None:
    with core.init() as context:
        uuids = []
        for step in range(2):
            with context.checkpoint.store_path({"steps_completed": step}) as (path, uuid):
                (path / "weights").write_text(str(step))
            uuids.append(uuid)
        client.create_model("net").register_version(uuids[1])
        with pytest.raises(CheckpointInUse, match=f"{uuids[1]} is registered as version 1 of model 'net'"):
            context.checkpoint.delete(uuids[1])
        context.checkpoint.delete(uuids[0])
        with pytest.raises(CheckpointNotFound):
            context.checkpoint.delete("never-stored")
    assert [client.get_checkpoint(uuid).state.value for uuid in uuids] == ["DELETED", "COMPLETED"]
    assert (home / "determined" / "checkpoints" / uuids[1] / "weights").exists()
