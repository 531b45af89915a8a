"""Nodes, actors, the runner and Ray's head are killed or freeze: the experiment ends like an uninterrupted one."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster, RayNode
from tests.ray.conftest import ONE_TRIAL, SEARCH, MakeSearch

MODEL = Path(__file__).parent / "model"
# Three trials at a time for some seconds, with a checkpoint every four batches.
SLOW: dict[str, Any] = {
    **SEARCH,
    "entrypoint": "model_def:SlowTrial",
    "hyperparameters": {**SEARCH["hyperparameters"], "seconds": 0.1},
    "searcher": {"name": "random", "metric": "validation_loss", "max_length": {"batches": 40}, "max_trials": 3},
    "min_checkpoint_period": {"batches": 4},
}

RESOURCES = """
import json, sys
import ray
from ray.util.placement_group import placement_group_table
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
groups = [one["state"] for one in placement_group_table().values() if one["state"] != "REMOVED"]
free, all_ = ray.available_resources(), ray.cluster_resources()
print(json.dumps([groups, free.get("CPU", 0), all_.get("CPU", 0)]))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the record of the experiment on this machine."""
    search = Search(tmp_path_factory.mktemp("undisturbed"), MODEL, SLOW)
    experiment = search.create()
    search.activate(experiment)
    return search.record(experiment)


@pytest.fixture(scope="module")
def fragile() -> Iterator[RayCluster]:
    """Start a head without slots, to which the runner connects, and two nodes to kill."""
    with RayCluster(cpus=0) as made:
        yield made


@pytest.fixture
def nodes(fragile: RayCluster) -> tuple[RayNode, RayNode]:
    """Return two nodes that work, whatever the last test did to them, with a slot for each of the three trials."""
    fragile.arrange({"127.0.0.3": 1, "127.0.0.4": 2})
    return fragile.nodes["127.0.0.3"], fragile.nodes["127.0.0.4"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def database(request: pytest.FixtureRequest) -> str | None:
    """Return a new database for an experiment; None is a file in its directory."""
    server = request.getfixturevalue("server") if request.param == "postgres" else None
    return None if server is None else server.new_database()


class Disturbed:
    """An experiment that runs on a cluster."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.experiment = search.create()
        self.runner = search.start(self.experiment)

    def wait_for_checkpoints(self, more: int = 3) -> None:
        """Wait until N checkpoints were added, or until it has ended."""
        before = self.checkpoints()
        wait_until(lambda: self.runner.poll() is not None or self.checkpoints() >= before + more)
        assert self.runner.poll() is None, self.search.said.read_text()

    def checkpoints(self) -> int:
        with self.search.opened() as store:
            return sum(len(store.checkpoints(trial.id)) for trial in store.experiments.trials(self.experiment))

    def finish(self, expected: dict[str, Any], code: int = 0) -> None:
        """Check that it ends, and has the record of an uninterrupted one without a single restart."""
        assert self.runner.wait(150) == code, self.search.said.read_text()
        assert self.search.record(self.experiment) == expected
        assert self.restarts() == [0, 0, 0]

    def restarts(self) -> list[int]:
        with self.search.opened() as store:
            return [trial.restarts for trial in store.experiments.trials(self.experiment)]


def busy(*nodes: RayNode) -> RayNode:
    """Return a node on which an actor works."""
    found = wait_until(lambda: [node for node in nodes if node.actors()])
    return found[0]


@pytest.fixture
def start(make_search: MakeSearch, fragile: RayCluster) -> Iterator[Any]:
    made: list[Disturbed] = []

    def start(store: str | None = None, **config: Any) -> Disturbed:
        made.append(Disturbed(make_search({**SLOW, **config}, fragile, model=MODEL, store=store)))
        return made[-1]

    yield start
    for disturbed in made:
        disturbed.runner.kill()
        disturbed.runner.wait()


def test_nodes_with_another_version_and_without_the_library_are_refused(
    fragile: RayCluster, make_search: MakeSearch, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "determined_pytorch-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: determined-pytorch\nVersion: 0.0.1\n")
    package = tmp_path / "empty" / "determined"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()  # as good as none
    fragile.arrange({})
    try:
        fragile.add_node("127.0.0.5", cpus=2, variables={"PYTHONPATH": str(other.parent)})
        fragile.add_node("127.0.0.6", cpus=1, variables={"PYTHONPATH": str(package.parent)})
        search = make_search(ONE_TRIAL, fragile)
        experiment = search.create()
        said = search.activate(experiment, expect=1)
        assert "determined-pytorch 0.0.1 instead of" in said
        assert "determined-pytorch is not installed on this node" in said
        fragile.add_node("127.0.0.3", cpus=1)
        # Three trials at a time, so that Ray gives both nodes.
        search = make_search(SLOW, fragile, model=MODEL)
        experiment = search.create()
        runner = search.start(experiment)
        try:
            shown = wait_until(lambda: refusals(search))
            assert "127.0.0.5 by experiment 1: it has determined-pytorch 0.0.1 instead of" in shown[0]
            assert json.loads(search.det("cluster", "--json").stdout)["refused"][0]["node"] == "127.0.0.5"
        finally:
            runner.kill()
            runner.wait()
        # The entry of a killed runner is not shown.
        wait_until(lambda: not refusals(search))
        search.activate(experiment)
        assert search.record(experiment)["state"] == "COMPLETED"
        logs = search.det("trial", "logs", "1").stdout + search.det("trial", "logs", "3").stdout
        assert "node 127.0.0.5 of the Ray cluster is not used: it has determined-pytorch 0.0.1" in logs
    finally:
        fragile.arrange({"127.0.0.3": 1})  # without the node that uses files of this test


def refusals(search: Search) -> list[str]:
    """Return the lines of `det cluster` about nodes that are not used."""
    return [line for line in search.det("cluster").stdout.splitlines() if line.startswith("Not used")]


def test_a_node_that_joins_is_used(
    fragile: RayCluster, start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    fragile.arrange({"127.0.0.3": 1})
    running = start(database)
    running.wait_for_checkpoints(1)
    assert fragile.nodes["127.0.0.3"].actors()
    joined = fragile.add_node("127.0.0.4", cpus=2)
    busy(joined)
    running.finish(undisturbed)


def test_a_killed_raylet(
    nodes: tuple[RayNode, RayNode], start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    running = start(database)
    running.wait_for_checkpoints()
    busy(*nodes).kill_raylet()
    running.finish(undisturbed)


def test_a_node_that_leaves_in_order(nodes: tuple[RayNode, RayNode], start: Any, undisturbed: dict[str, Any]) -> None:
    """Its raylet ends by itself, as after `ray stop`."""
    running = start()
    running.wait_for_checkpoints()
    busy(*nodes).raylet().terminate()
    running.finish(undisturbed)


def test_a_killed_actor(
    nodes: tuple[RayNode, RayNode], start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    running = start(database)
    for _ in range(2):
        running.wait_for_checkpoints()
        busy(*nodes).kill_actors()
    running.finish(undisturbed)


@pytest.mark.thorough
def test_a_frozen_node_is_replaced_and_ends_when_it_wakes(
    nodes: tuple[RayNode, RayNode], start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    running = start(database)
    running.wait_for_checkpoints()
    node = busy(*nodes)
    frozen = node.freeze()
    actors = node.actors()
    assert actors
    try:
        running.finish(undisturbed)
    finally:
        for process in frozen:
            process.send_signal(signal.SIGCONT)
    wait_until(lambda: not node.workers(), "a job lives on")
    assert running.search.record(running.experiment) == undisturbed


def test_an_actor_that_does_not_answer_is_lost_after_the_configured_time(
    nodes: tuple[RayNode, RayNode], start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    """Ray itself sees no failure: its own processes on that node work."""
    running = start(database, resources={"node_timeout": 5})
    running.wait_for_checkpoints()
    (actor,) = busy(*nodes).actors()
    actor.suspend()
    try:
        running.finish(undisturbed)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            actor.resume()
    assert "no answer for 5 s" in running.search.said.read_text()


def test_a_killed_runner(
    nodes: tuple[RayNode, RayNode],
    fragile: RayCluster,
    start: Any,
    undisturbed: dict[str, Any],
    database: str | None,
) -> None:
    running = start(database)
    running.wait_for_checkpoints()
    assert any(node.workers() for node in nodes)
    running.runner.kill()
    running.runner.wait()
    wait_until(lambda: not any(node.workers() for node in nodes), "a job lives on")
    running.search.wait_for_exits()
    assert resources(fragile) == [[], 3.0, 3.0]
    running.runner = running.search.start(running.experiment)
    running.finish(undisturbed)


@pytest.mark.thorough
def test_a_suspended_runner_is_taken_over_and_changes_nothing_when_it_wakes(
    fragile: RayCluster, start: Any, undisturbed: dict[str, Any], database: str | None
) -> None:
    fragile.arrange({"127.0.0.3": 3, "127.0.0.4": 3})  # for both: it keeps its slots while it is suspended
    running = start(database)
    running.wait_for_checkpoints()
    suspended = psutil.Process(running.runner.pid)
    suspended.suspend()
    try:
        # Refused until its lease has expired.
        again = ("experiment", "activate", str(running.experiment))
        wait_until(lambda: running.search.det(*again, check=False).returncode == 0)
        assert running.search.record(running.experiment) == undisturbed
    finally:
        suspended.resume()
    assert running.runner.wait(150) != 0
    assert running.search.record(running.experiment) == undisturbed
    wait_until(lambda: resources(fragile) == [[], 6.0, 6.0], "slots are held")


def resources(cluster: RayCluster) -> Any:
    """Return the placement groups of a cluster, its free CPUs and all of them."""
    done = subprocess.run(
        [sys.executable, "-c", RESOURCES, cluster.address],
        env={**cluster.variables_of_programs()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_trial_that_can_never_fit(
    fragile: RayCluster, nodes: tuple[RayNode, RayNode], make_search: MakeSearch
) -> None:
    search = make_search({**SLOW, "resources": {"slots_per_trial": 50}}, fragile, model=MODEL)
    done = search.det("experiment", "create", *search.written(), check=False)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "50 CPU slots" in said
    assert "(127.0.0" in said
    (listed,) = json.loads(search.det("experiment", "list", "--json").stdout)
    assert listed["state"] == "PAUSED"
    assert "50 CPU slots" in search.det("experiment", "describe", "1").stdout


@pytest.mark.parametrize("what", ["gcs_server", pytest.param("everything", marks=pytest.mark.thorough)])
def test_a_lost_head(
    make_search: MakeSearch, cluster: RayCluster, undisturbed: dict[str, Any], what: str, database: str | None
) -> None:
    """Trials save while they can; the experiment is paused with the reason, and resumes on another cluster."""
    with RayCluster(cpus=0) as lost:
        lost.add_node("127.0.0.3", cpus=2)
        running = Disturbed(make_search(SLOW, lost, model=MODEL, store=database))
        running.wait_for_checkpoints()
        if what == "everything":
            lost.head.kill()
        else:
            lost.head.kill_program("gcs_server")
        assert running.runner.wait(150) == 1
    with running.search.opened() as store:
        experiment = store.experiments.get(running.experiment)
    assert experiment.state == "PAUSED"
    assert experiment.reason is not None
    assert "Ray" in experiment.reason
    running.search.environment.update(cluster.environment())
    running.runner = running.search.start(running.experiment)
    running.finish(undisturbed)
