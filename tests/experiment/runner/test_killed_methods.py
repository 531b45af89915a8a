"""Searches that pause, promote and copy trials end like uninterrupted ones when their runners are killed (R16)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.experiment.conftest import MakeSearch
from tests.helpers.searches import kill_after

METHODS: dict[str, dict[str, Any]] = {
    "promotion": {
        "name": "async_halving",
        "stop_once": False,
        "num_rungs": 3,
        "max_trials": 8,
        "max_time": 16,
        "time_metric": "batches",
        "divisor": 2,
    },
    "population": {
        "name": "pbt",
        "population_size": 4,
        "num_rounds": 4,
        "length_per_round": {"batches": 4},
        "replace_function": {"truncate_fraction": 0.25},
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize("searcher", METHODS.values(), ids=METHODS)
def test_kills_change_nothing(make_search: MakeSearch, searcher: dict[str, Any]) -> None:
    config = {
        "name": "killed",
        "entrypoint": "python3 train.py 0.1 16",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"metric": "loss", **searcher},
        "reproducibility": {"experiment_seed": 5},
    }
    undisturbed = make_search("steady", config)
    undisturbed.activate(undisturbed.create())
    search = make_search("steady", config, is_warm=False)  # kills at any moment, also while torch is imported
    experiment = search.create()
    moments = random.Random(2)
    kills = 0
    while kills < 6 and kill_after(search.start(experiment), moments.uniform(2.0, 4.5)):
        kills += 1
        search.wait_for_exits()
    if kills == 6:
        search.activate(experiment)
    assert kills > 1
    assert without_pauses(search.record(experiment)) == without_pauses(undisturbed.record(1))


def without_pauses(record: dict[str, Any]) -> dict[str, Any]:
    """Remove pauses of the last trial of a round: whether it pauses depends on speed, and has no consequences."""
    for trial in record["trials"].values():
        trial["decisions"] = [decision for decision in trial["decisions"] if decision["action"] != "pause"]
    return record
