"""A search that loses slots to others, and whose machine is switched off, decides like an uninterrupted one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiment.runner.test_killed_runners import CONFIG, LINEAR
from tests.queue.conftest import QueuedSearch

SEARCH: dict[str, Any] = {
    **CONFIG,
    "searcher": {**CONFIG["searcher"], "max_length": {"batches": 1024}},
    "min_checkpoint_period": {"batches": 64},
    "min_validation_period": {"batches": 128},
}
NEIGHBOUR: dict[str, Any] = {
    "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 64}},
    "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
    "resources": {"priority": 1},
}


@pytest.mark.thorough
def test_adaptive_search_with_neighbours_and_a_reboot(
    searches: QueuedSearch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = QueuedSearch(tmp_path_factory.mktemp("alone"), LINEAR, SEARCH)
    number = alone.create()
    alone.activate(number)

    searches.model_dir, searches.config = LINEAR, {**SEARCH, **NEIGHBOUR}
    neighbour = searches.create()
    searches.config = SEARCH
    search = searches.detach()
    searches.wait_for(lambda store: sum(searches.steps(search)) > 0)
    searches.det("experiment", "activate", str(neighbour), "--detach")
    searches.wait_for(lambda store: any(row.state == "RUNNING" for row in store.experiments.trials(neighbour)))
    with searches.opened() as store:
        trials = store.experiments.trials(search)
        assert store.experiments.get(search).state == "ACTIVE"
        assert any(trial.runs > 1 or (trial.runs and trial.state == "QUEUED") for trial in trials), "one had to leave"
    searches.kill(searches.processes())  # all at once, as when the machine loses power
    searches.wait_for_exits()
    searches.det("queue", "resume")
    for experiment in (neighbour, search):
        searches.wait(experiment)
    assert searches.record(search) == alone.record(number)
