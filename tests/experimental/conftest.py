"""The SDK as a program uses it: on a separate store, with runners that end with the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.experimental import Determined, Experiment, client
from tests.helpers import warm
from tests.helpers.searches import end_processes

MODELS = Path(__file__).parents[1] / "experiment" / "models"

SEARCH: dict[str, Any] = {
    "name": "sdk search",
    "description": "for tests",
    "labels": ["sdk", "linear"],
    "entrypoint": "model_def:LinearTrial",
    "hyperparameters": {
        "global_batch_size": 16,
        "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
    },
    "searcher": {
        "name": "random",
        "metric": "validation_loss",
        "max_length": {"batches": 16},
        "max_trials": 3,
    },
    "checkpoint_storage": {"type": "directory", "container_path": "?", "save_trial_best": 4, "save_trial_latest": 4},
    "min_checkpoint_period": {"batches": 8},
    "min_validation_period": {"batches": 8},
    "scheduling_unit": 4,
    "reproducibility": {"experiment_seed": 11},
}


def search_config(home: Path, **changes: Any) -> dict[str, Any]:
    storage = {**SEARCH["checkpoint_storage"], "container_path": str(home / "saved")}
    return {**SEARCH, "checkpoint_storage": storage, **changes}


@pytest.fixture(scope="package", autouse=True)
def warm_children() -> Iterator[None]:
    """Fork the daemons and engines that this process starts, so that they do not import torch again."""
    with warm.children():
        yield


@pytest.fixture(autouse=True)
def fresh_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test be a program that has not used the module yet."""
    monkeypatch.setattr(client, "_default", None)
    monkeypatch.setenv("DET_SLOTS", "2")
    yield
    if client._default is not None:
        client._default.close()


@pytest.fixture(scope="session")
def searched_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Return a data directory in which a search ran to its end through the SDK, and the search's id."""
    home = tmp_path_factory.mktemp("sdk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        patch.setenv("DET_SLOTS", "2")
        with Determined() as determined:
            experiment = determined.create_experiment(search_config(home), MODELS / "linear")
            assert experiment.wait(interval=0.1).value == "COMPLETED", experiment.reason
    yield home, experiment.id
    end_processes(home)


@pytest.fixture
def searched(searched_home: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Return the search, in a program that uses its data directory."""
    home, experiment_id = searched_home
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    return client.get_experiment(experiment_id)


@pytest.fixture
def home(data_home: Path) -> Iterator[Path]:
    """Return a data directory of this test, and end the processes of it afterwards."""
    data_home.mkdir()
    yield data_home
    end_processes(data_home)
