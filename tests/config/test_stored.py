"""Stored configurations are read without validation, with the fields and defaults of the model."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from determined.config import experiment
from determined.config.defaults import complete
from determined.config.experiment import ExperimentConfig, load_experiment
from determined.config.stored import StoredConfig
from determined.config.stored_model import stored_model
from tests.searchers.methods import GRID, METHODS, SPACE

RICH: dict[str, Any] = {
    "name": "rich",
    "description": "every kind of field",
    "labels": ["a", "b"],
    "entrypoint": ["python3", "train.py"],
    "data": {"url": None, "parts": [1, {"deep": 2}]},
    "hyperparameters": {**SPACE, "fixed": 3},
    "searcher": {"name": "single", "metric": "loss", "max_length": {"epochs": 3}, "source_checkpoint_uuid": "u"},
    "resources": {"slots_per_trial": 2, "max_slots": 4, "devices": ["/dev/a:/dev/b"], "shm_size": "1 GiB"},
    "checkpoint_storage": {"type": "s3", "bucket": "here", "prefix": "a/b", "save_trial_best": 2},
    "min_validation_period": {"batches": 10},
    "min_checkpoint_period": {"records": 7},
    "hang_timeout": None,
    "log_policies": [{"name": "mine", "pattern": "x.*y", "action": "cancel_retries"}],
    "sinks": {"mlflow": {"experiment": "e"}, "trackio": {}},
    "environment": {
        "environment_variables": {"cpu": ["A=1"], "cuda": ["B=2", "C"]},
        "image": "ubuntu",
        "ports": {"web": 80},
        "proxy_ports": [{"proxy_port": 8080, "proxy_tcp": True}],
    },
    "bind_mounts": [{"host_path": "/a", "container_path": "b"}],
    "integrations": {"webhooks": {"webhook_id": [1, 2]}},
    "reproducibility": {"experiment_seed": 7},
}


def stored_json(config: dict[str, Any]) -> tuple[ExperimentConfig, dict[str, Any]]:
    """Return a configuration as an experiment is created with it, and the JSON data that are stored."""
    made = complete(load_experiment(config).config, now=1.0, words="a-b-c", checkpoints="/data/checkpoints")
    return made, json.loads(json.dumps(made.plain()))


def configurations() -> dict[str, dict[str, Any]]:
    methods = {
        name: {
            "entrypoint": "model_def:MyTrial",
            "hyperparameters": GRID if name == "grid" else SPACE,
            "searcher": {"metric": "loss", **settings},
        }
        for name, settings in METHODS.items()
    }
    return {**methods, "rich": RICH}


@pytest.fixture
def no_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a stored configuration is validated again")

    monkeypatch.setattr(experiment, "_checked", refuse)


@pytest.mark.parametrize("name", configurations())
def test_what_was_validated_is_read_without_validation(name: str, request: pytest.FixtureRequest) -> None:
    made, plain = stored_json(configurations()[name])
    request.getfixturevalue("no_validation")
    again = stored_model(plain)
    assert again == made
    assert json.dumps(again.plain()) == json.dumps(made.plain())


@pytest.mark.parametrize(
    "old",
    [
        pytest.param({"startup_hook": None}, id="a field that did not exist"),
        pytest.param({"batches_per_step": 100}, id="a field that exists no more"),
        pytest.param({"searcher": {"name": "adaptive_simple"}}, id="a method of another name"),
    ],
)
def test_what_an_earlier_version_stored_is_migrated(old: dict[str, Any]) -> None:
    _, plain = stored_json(configurations()["adaptive_asha"])
    expected = stored_model(plain)
    for name, value in old.items():
        if value is None:
            del plain[name]
        else:
            plain[name] = {**plain[name], **value} if isinstance(value, dict) else value
    assert stored_model(plain) == expected


def test_missing_fields_have_the_defaults_of_the_model() -> None:
    _, plain = stored_json({"entrypoint": "a:B", "searcher": {"name": "single", "metric": "loss"}})
    empty, full = StoredConfig({"searcher": {"name": "single"}}), StoredConfig(plain)
    given = {"name", "entrypoint", "searcher.metric", "reproducibility.experiment_seed", "checkpoint_storage.type"}
    # Fields that are read as missing: a stored null means no limit, and periods of 0 mean none.
    unlimited = {"hang_timeout", "min_validation_period", "min_checkpoint_period", "scheduling_unit", "log_policies"}
    # A standalone run belongs to no workspace and no project, which lists show in another way than an empty one.
    unlimited |= {"workspace", "project"}
    differing = dict(differences(empty, full))
    assert differing.keys() == given | unlimited


def differences(one: Any, other: Any, before: str = "") -> list[tuple[str, Any]]:
    """Return the typed fields of two blocks whose values differ."""
    found = []
    for name in dir(type(one)):
        if name.startswith("_") or name in ("plain", "batches_between_reports"):
            continue
        here, there = getattr(one, name), getattr(other, name)
        if hasattr(here, "plain"):
            found += differences(here, there, f"{before}{name}.")
        elif here != there:
            found.append((f"{before}{name}", (here, there)))
    return found


def test_a_configuration_of_any_shape_can_be_read() -> None:
    odd = StoredConfig({"searcher": "none", "resources": None, "labels": 3, "log_policies": {}})
    assert odd.searcher.metric is None
    assert odd.resources.slots == 1
    assert odd.labels == []
    assert odd.log_policies == []
    assert StoredConfig(None).searcher.method.compares_trials


def test_reading_imports_no_validation() -> None:
    program = (
        "import sys; from determined.config.stored import StoredConfig; "
        "config = StoredConfig({'searcher': {'name': 'pbt'}}); "
        "assert config.searcher.method.copies_trials; "
        "assert not {'pydantic', 'determined.searchers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
