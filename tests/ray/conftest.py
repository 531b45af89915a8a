"""The clusters that the tests of this folder share, because a node takes seconds to start."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.helpers.postgres import PostgresServer, running_server
from tests.helpers.searches import Search
from tests.ray.cluster import RayCluster

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]  # `make ray` runs them in an environment with Ray

MODELS = Path(__file__).parents[1] / "experiment" / "models"


# A search that keeps three nodes busy for some seconds, and that pauses and resumes trials.
SEARCH: dict[str, Any] = {
    "name": "on a cluster",
    "entrypoint": "model_def:LinearTrial",
    "hyperparameters": {"global_batch_size": 16, "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}},
    "searcher": {
        "name": "adaptive_asha",
        "metric": "validation_loss",
        "max_length": {"batches": 32},
        "max_trials": 9,
    },
    "min_checkpoint_period": {"batches": 8},
    "min_validation_period": {"batches": 8},
    "scheduling_unit": 4,
    "max_restarts": 0,  # a lost node must not count as one
    "reproducibility": {"experiment_seed": 11},
}
# One trial of a second.
ONE_TRIAL: dict[str, Any] = {
    **SEARCH,
    "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
    "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 8}},
}
# One trial with two ranks.
TWO_RANKS: dict[str, Any] = {
    **SEARCH,
    "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
    "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 32}},
    "resources": {"slots_per_trial": 2},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests more time: clusters take seconds to start and to notice losses, on a busy machine a minute."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(600))


class MakeSearch(Protocol):
    def __call__(self, config: dict[str, Any], cluster: RayCluster | None = None, **fields: Any) -> Search: ...


class LocalRuns(Protocol):
    def __call__(self, name: str) -> list[Any]: ...


def run(search: Search) -> tuple[int, dict[str, Any], dict[tuple[int, int], dict[str, str]]]:
    """Run an experiment to its end; return its id, its record and its weights."""
    experiment = search.create()
    search.activate(experiment)
    files = weights(search, experiment)
    assert any(files.values())
    return experiment, search.record(experiment), files


def weights(search: Search, experiment: int) -> dict[tuple[int, int], dict[str, str]]:
    """The hashes of the files with weights of all checkpoints, by trial and step."""
    found = {}
    with search.opened() as store:
        for trial in store.experiments.trials(experiment):
            for row in store.checkpoints(trial.id):
                directory = search.home / "checkpoints" / row.checkpoint_id
                found[trial.number, row.steps_completed] = {
                    path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in sorted(directory.rglob("*"))
                    if path.is_file() and path.suffix in (".pth", ".pt", ".safetensors")
                }
    return found


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalRuns:
    """Return local("search") and local("ranks"): record and weights of SEARCH and TWO_RANKS on this machine."""

    @functools.cache
    def found(name: str) -> list[Any]:
        home = tmp_path_factory.mktemp(name)
        shared = {"type": "shared_fs", "host_path": str(home / "checkpoints")}
        (home / "checkpoints").mkdir()
        config = {"search": SEARCH, "ranks": TWO_RANKS}[name]
        _, *record_and_weights = run(Search(home, MODELS / "linear", {"checkpoint_storage": shared, **config}))
        return record_and_weights

    return found


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """Start three nodes with two CPUs each. Tests do not damage them."""
    with RayCluster() as made:
        made.arrange({"127.0.0.3": 2, "127.0.0.4": 2})
        yield made


@pytest.fixture(scope="session")
def closed() -> Iterator[RayCluster]:
    """Start one node with two GPUs, which requires a token."""
    with RayCluster(gpus=2, is_authenticated=True) as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with running_server() as made:
        yield made


@pytest.fixture
def make_search(tmp_path: Path) -> MakeSearch:
    """Return make_search(config, cluster): on this machine without a cluster; each with a separate data directory."""
    made: list[Search] = []

    def make(config: dict[str, Any], cluster: RayCluster | None = None, **fields: Any) -> Search:
        home = tmp_path / f"search-{len(made)}"
        environment = {} if cluster is None else cluster.environment()
        shared = {"type": "shared_fs", "host_path": str(home / "checkpoints")}
        model = fields.pop("model", MODELS / "linear")
        search = Search(home, model, {"checkpoint_storage": shared, **config}, environment=environment, **fields)
        (home / "checkpoints").mkdir(parents=True)
        made.append(search)
        return search

    return make
