"""Configurations that are derived from others."""

from __future__ import annotations

from typing import Any

import pytest

from determined.config.derive import derive
from determined.config.experiment import load_experiment

ASHA = load_experiment(
    {
        "name": "old",
        "entrypoint": "python3 train.py",
        "hyperparameters": {
            "lr": {"type": "log", "minval": -4, "maxval": -1, "base": 10},
            "net": {"layers": {"type": "int", "minval": 1, "maxval": 4}, "act": "relu"},
        },
        "searcher": {
            "name": "adaptive_asha",
            "metric": "accuracy",
            "smaller_is_better": False,
            "time_metric": "batches",
            "max_time": 16,
            "max_trials": 4,
        },
        "checkpoint_storage": {"type": "shared_fs", "host_path": "/tmp", "save_trial_best": 3},
        "min_validation_period": {"batches": 100},
    }
).config.plain()


def test_another_searcher_keeps_what_it_knows() -> None:
    for name in ("random", "single", "optuna"):
        config = load_experiment(derive(ASHA, {"searcher": {"name": name}})).config.plain()
        assert config["searcher"]["metric"] == "accuracy"
        assert config["searcher"]["smaller_is_better"] is False
        assert "mode" not in config["searcher"]
    assert derive(ASHA, {"searcher": {"name": "random"}})["searcher"]["max_trials"] == 4
    assert derive(ASHA, {"searcher": {"max_trials": 8}})["searcher"] == {**ASHA["searcher"], "max_trials": 8}


def test_another_storage_keeps_how_much_it_keeps() -> None:
    storage = {"type": "s3", "bucket": "bucket"}
    config = load_experiment(derive(ASHA, {"checkpoint_storage": storage})).config.plain()
    assert (config["checkpoint_storage"]["bucket"], config["checkpoint_storage"]["save_trial_best"]) == ("bucket", 3)
    assert "host_path" not in config["checkpoint_storage"]


@pytest.mark.parametrize(
    ("changes", "lr"),
    [
        ({"lr": 0.1}, 0.1),
        ({"lr": {"maxval": -2}}, {"type": "log", "minval": -4, "maxval": -2, "base": 10}),
        ({"lr": {"type": "double", "minval": 0, "maxval": 1}}, {"type": "double", "minval": 0, "maxval": 1}),
    ],
)
def test_hyperparameters(changes: dict[str, Any], lr: Any) -> None:
    derived = derive(ASHA, {"hyperparameters": changes})
    assert derived["hyperparameters"]["lr"] == lr
    assert derived["hyperparameters"]["net"] == ASHA["hyperparameters"]["net"]
    load_experiment(derived)


def test_a_length_takes_the_place_of_another() -> None:
    assert derive(ASHA, {"min_validation_period": {"epochs": 2}})["min_validation_period"] == {"epochs": 2}


def test_the_old_one_stays_as_it_is() -> None:
    before = load_experiment(ASHA).config.plain()
    derive(ASHA, {"searcher": {"name": "single"}, "hyperparameters": {"net": {"act": "tanh"}}, "labels": ["new"]})
    assert before == ASHA
