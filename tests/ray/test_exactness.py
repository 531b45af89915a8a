"""Experiments on a cluster end with the local engine's metrics and weights, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.postgres import PostgresServer
from tests.ray.cluster import RayCluster
from tests.ray.conftest import SEARCH, TWO_RANKS, LocalRuns, MakeSearch, run


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_search_over_three_nodes(
    cluster: RayCluster, make_search: MakeSearch, local: LocalRuns, server: PostgresServer, database: str
) -> None:
    store = server.new_database() if database == "postgres" else None
    _, *found = run(make_search(SEARCH, cluster, store=store))
    assert found == local("search")


@pytest.fixture(scope="module")
def small() -> Iterator[RayCluster]:
    """Start two nodes with one CPU each, so that a trial of two ranks needs both."""
    with RayCluster(cpus=1) as made:
        made.arrange({"127.0.0.3": 1})
        yield made


@pytest.mark.thorough
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_trial_over_two_nodes(
    small: RayCluster, make_search: MakeSearch, local: LocalRuns, server: PostgresServer, database: str
) -> None:
    """The same over two hosts is in `test_hosts.py`, with SQLite."""
    store = server.new_database() if database == "postgres" else None
    _, *found = run(make_search(TWO_RANKS, small, store=store))
    assert found == local("ranks")
