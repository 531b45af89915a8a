"""Programs that do something to a checkpoint while somebody else removes it."""

from __future__ import annotations

import threading
from pathlib import Path

from determined import core
from determined.errors import StoreError
from determined.experimental import Determined, client
from determined.experimental.client import CheckpointState

_CHECKPOINTS = 120


def test_a_version_that_is_registered_during_a_clean_up_is_whole_or_refused(home: Path) -> None:
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
    assert all("is DELETED: only a whole one can be registered" in reason for reason in refused)
    left = {path.name for path in (home / "saved").iterdir() if not path.name.startswith(".")}
    (experiment,) = client.list_experiments()
    assert left == {found.uuid for found in experiment.list_checkpoints()}, "every surplus one is gone"
    assert set(registered) <= left
