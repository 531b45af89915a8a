"""A cluster of two hosts, each with a separate network, name, home and data directory, and separate processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.hosts import two_hosts
from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster
from tests.ray.conftest import SEARCH, TWO_RANKS, LocalRuns, MakeSearch, run
from tests.ray.test_faults import MODEL, SLOW, Disturbed


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Start one slot on each host, so that the search uses both, and each rank of a trial runs on its own host."""
    with two_hosts() as hosts:
        first, second = (host.address for host in hosts)
        with RayCluster(cpus=1, head_address=first, hosts={host.address: host for host in hosts}) as made:
            made.add_node(second)
            yield made


def nodes(search: Search, experiment: int) -> list[list[str] | None]:
    """Return the node of each rank, for all trials."""
    with search.opened() as store:
        return [trial.nodes for trial in store.experiments.trials(experiment)]


def test_a_search_over_two_hosts(cluster: RayCluster, make_search: MakeSearch, local: LocalRuns) -> None:
    search = make_search(SEARCH, cluster, host=cluster.hosts[cluster.head_address])
    experiment, *found = run(search)
    assert found == local("search")
    assert {name for names in nodes(search, experiment) for name in names or ()} == {"first-host", "second-host"}


def test_a_trial_over_two_hosts(cluster: RayCluster, make_search: MakeSearch, local: LocalRuns) -> None:
    """Between hosts Gloo needs the interface of the node: it would listen at the address of the host name."""
    search = make_search(TWO_RANKS, cluster, host=cluster.hosts[cluster.head_address])
    experiment, *found = run(search)
    assert found == local("ranks")
    (names,) = nodes(search, experiment)
    assert sorted(names or ()) == ["first-host", "second-host"]


@pytest.mark.thorough
def test_an_unplugged_host(cluster: RayCluster, make_search: MakeSearch, tmp_path: Path) -> None:
    """The last test of this cluster: the second host is not connected again before its processes have ended."""
    local = Search(tmp_path / "local", MODEL, SLOW)
    undisturbed = local.create()
    local.activate(undisturbed)
    host, other = (
        cluster.hosts[cluster.head_address],
        next(one for address, one in cluster.hosts.items() if address != cluster.head_address),
    )
    running = Disturbed(make_search(SLOW, cluster, model=MODEL, host=host))
    try:
        running.wait_for_checkpoints()
        wait_until(lambda: cluster.nodes[other.address].actors())
        subprocess.run(other.command("ip", "link", "set", other.interface, "down"), check=True)
        running.finish(local.record(undisturbed))
    finally:
        running.runner.kill()
        running.runner.wait()
    assert any("first-host" in (names or ()) for names in nodes(running.search, running.experiment))
    wait_until(lambda: not cluster.nodes[other.address].workers(), "a job of the unplugged host lives on")
