"""A search whose runner is killed again and again ends like an uninterrupted one (R16)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until

LINEAR = Path(__file__).parents[1] / "models" / "linear"
CONFIG: dict[str, Any] = {
    "name": "sixteen",
    "entrypoint": "model_def:LinearTrial",
    "hyperparameters": {
        "global_batch_size": 16,
        "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
    },
    "searcher": {
        "name": "adaptive_asha",
        "metric": "validation_loss",
        "max_length": {"batches": 64},
        "max_trials": 16,
    },
    "min_checkpoint_period": {"batches": 8},
    "min_validation_period": {"batches": 16},
    "scheduling_unit": 4,
    "reproducibility": {"experiment_seed": 11},
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    search = Search(tmp_path_factory.mktemp("undisturbed"), LINEAR, CONFIG)
    experiment = search.create()
    search.activate(experiment)
    record = search.record(experiment)
    assert record["state"] == "COMPLETED"
    assert len(record["trials"]) == 16
    return record


def batches(search: Search, experiment: int) -> int:
    """Return how many batches all trials together have reported."""
    with search.opened() as store:
        return sum(trial.steps_completed for trial in store.experiments.trials(experiment))


@pytest.mark.parametrize("most", [5, pytest.param(10, marks=pytest.mark.thorough)])
def test_kills_change_nothing(tmp_path: Path, undisturbed: dict[str, Any], most: int) -> None:
    search = Search(tmp_path / "killed", LINEAR, CONFIG)
    experiment = search.create()
    moments = random.Random(5)
    kills = 0
    while kills < most:
        trained = batches(search, experiment)
        runner, more = search.start(experiment), moments.randrange(80)
        wait_until(lambda: runner.poll() is not None or batches(search, experiment) >= trained + more)  # noqa: B023
        if runner.poll() is not None:
            break
        runner.kill()
        runner.wait()
        kills += 1
        search.wait_for_exits()
    if kills == most:
        search.activate(experiment)
    assert kills >= 3
    assert search.record(experiment) == undisturbed
