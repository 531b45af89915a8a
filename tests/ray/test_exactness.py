"""Experiments on a cluster end with the local engine's metrics and weights, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.postgres import PostgresServer
from tests.helpers.searches import Search
from tests.ray.cluster import RayCluster
from tests.ray.conftest import MODELS, SEARCH, TWO_RANKS, MakeSearch


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


def run(search: Search) -> tuple[dict[str, Any], dict[tuple[int, int], dict[str, str]]]:
    experiment = search.create()
    search.activate(experiment)
    return search.record(experiment), weights(search, experiment)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The records of both experiments on this machine."""
    found = {}
    for name, config in (("search", SEARCH), ("ranks", TWO_RANKS)):
        home = tmp_path_factory.mktemp(name)
        shared = {"type": "shared_fs", "host_path": str(home / "checkpoints")}
        (home / "checkpoints").mkdir()
        found[name] = run(Search(home, MODELS / "linear", {"checkpoint_storage": shared, **config}))
    return found


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_search_over_three_nodes(
    cluster: RayCluster, make_search: MakeSearch, local: dict[str, Any], server: PostgresServer, database: str
) -> None:
    store = server.new_database() if database == "postgres" else None
    record, files = run(make_search(SEARCH, cluster, store=store))
    assert record == local["search"][0]
    assert files == local["search"][1]
    assert any(files.values())


@pytest.fixture(scope="module")
def small() -> Iterator[RayCluster]:
    """Two nodes with one CPU each, so that a trial of two ranks needs both."""
    with RayCluster(cpus=1) as made:
        made.add_node("127.0.0.3")
        yield made


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def test_a_trial_over_two_nodes(
    small: RayCluster, make_search: MakeSearch, local: dict[str, Any], server: PostgresServer, database: str
) -> None:
    store = server.new_database() if database == "postgres" else None
    record, files = run(make_search(TWO_RANKS, small, store=store))
    assert record == local["ranks"][0]
    assert files == local["ranks"][1]
    assert any(files.values())
