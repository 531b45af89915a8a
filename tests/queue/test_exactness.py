"""A search that others take slots from, and whose machine is switched off, decides as if nothing had been."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiment.test_killed_runners import CONFIG, LINEAR
from tests.queue.conftest import QueuedSearch


@pytest.mark.thorough
def test_adaptive_search_with_neighbours_and_a_reboot(
    searches: QueuedSearch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = QueuedSearch(tmp_path_factory.mktemp("alone"), LINEAR, CONFIG)
    number = alone.create()
    alone.activate(number)
    undisturbed = alone.record(number)

    searches.model_dir, searches.config = LINEAR, CONFIG
    search = searches.detach()
    small: dict[str, Any] = {
        "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 64}},
        "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
    }
    for disturbance in ("neighbour", "neighbour and reboot"):
        before = sum(searches.steps(search))
        searches.wait_for(lambda store, before=before: sum(searches.steps(search)) > before)
        searches.wait(searches.detach(**small, resources={"priority": 1}))
        assert searches.state(search) == "ACTIVE", f"{disturbance}: it came too late"
        if disturbance == "neighbour and reboot":  # all at once, as when the machine loses power
            searches.kill(searches.processes())
            searches.wait_for_silence()
            searches.det("queue", "resume")
    searches.wait(search)
    assert searches.record(search) == undisturbed
    with searches.opened() as store:
        assert any(trial.runs > 1 for trial in store.experiments.trials(search))
