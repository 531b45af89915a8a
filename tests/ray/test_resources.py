"""Slots, GPUs, demand, versions and authentication: what an experiment gets from a cluster, and when it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from determined.engines.base import Event, Exited, Line
from determined.engines.ray.engine import RayEngine
from tests.engines.contract import Bench
from tests.helpers.searches import DET
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster
from tests.ray.conftest import ONE_TRIAL, MakeSearch
from tests.ray.engines import opened, wait_for_slots

HOLDER = """
import sys
import ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
group = placement_group([{"CPU": 1}] * int(sys.argv[2]), strategy="SPREAD")
ray.get(group.ready())
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(cluster: RayCluster, cpus: int) -> Iterator[None]:
    """Start another program of the cluster that holds this many CPUs."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, cluster.address, str(cpus)],
        env=cluster.variables_of_programs(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "held\n"
        yield
    finally:
        other.stdin.close()
        other.stdout.close()
        other.wait(60)


def test_jobs_get_the_gpus_that_ray_gave(closed: RayCluster, tmp_path: Path) -> None:
    with opened(closed, tmp_path) as engine:
        assert engine.slots == 2
        wait_for_slots(engine, 2)
        bench = Bench(engine, tmp_path)
        keys = [bench.start("echo gpu $CUDA_VISIBLE_DEVICES; sleep 1000") for _ in range(2)]
        seen: list[Event] = []
        while len(shown := {event.text for event in seen if isinstance(event, Line)}) < 2:
            seen += engine.events(1.0)
        assert shown == {"gpu 0", "gpu 1"}
        for key in keys:
            engine.kill(key)
        while len([event for event in seen if isinstance(event, Exited)]) < 2:
            seen += engine.events(1.0)


def test_a_node_with_gpus_that_lacks_the_library_is_refused(closed: RayCluster, tmp_path: Path) -> None:
    package = tmp_path / "empty" / "determined"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    node = closed.add_node("127.0.0.3", gpus=1, variables={"PYTHONPATH": str(package.parent)})
    try:
        with opened(closed, tmp_path) as engine:
            assert engine.slots == 3

            def settled() -> bool:
                engine.announce_demand(3)
                return engine.events(0.05) == [] and engine.slots == 2 and engine.free_slots() == 2

            wait_until(settled)
            assert "determined-pytorch is not installed on this node" in str(engine.reason_not_to_fit(3))
    finally:
        node.clean_up()


def test_two_runners_of_one_experiment_have_their_own_groups(cluster: RayCluster, tmp_path: Path) -> None:
    """As after a takeover from a runner that is suspended: its groups still exist."""
    with opened(cluster, tmp_path) as first:
        wait_for_slots(first, 1)
        with opened(cluster, tmp_path) as second:
            wait_for_slots(second, 2)


def test_other_programs_are_respected_and_pending_trials_are_demand(cluster: RayCluster, tmp_path: Path) -> None:
    with opened(cluster, tmp_path) as engine:
        assert engine.slots == 6
        with holding(cluster, 3):
            wait_for_three(engine)
            assert engine.wants_more_slots
            wait_until(lambda: "{'CPU': 1.0}" in (status := cluster.ray("status")) and "Demands" in status)
            # Their requests do not change while the other program continues.
            assert engine.events(0.5) == []
            assert engine.free_slots() == 3
        wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 6)
        engine.announce_demand(0)
        with holding(cluster, 6):
            assert engine.free_slots() == 0


def wait_for_three(engine: RayEngine) -> None:
    engine.announce_demand(6)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 3)


def test_a_refused_node_is_avoided_with_the_reason(cluster: RayCluster, tmp_path: Path) -> None:
    refused = cluster.nodes["127.0.0.3"]
    with opened(cluster, tmp_path, data={"refused": [str(refused.home)]}) as engine:

        def settled() -> bool:
            engine.announce_demand(4)
            return engine.events(0.05) == [] and engine.free_slots() == 4

        wait_until(settled)
        assert engine.slots == 4
        assert "127.0.0.3: it does not please this test" in str(engine.reason_not_to_fit(5))
        # Ray is not asked for that node any more: the demand beyond the others stays pending.
        engine.announce_demand(6)
        assert engine.events(2.0) == []
        assert engine.free_slots() == 4


def test_a_cluster_with_authentication(closed: RayCluster, make_search: MakeSearch, tmp_path: Path) -> None:
    search = make_search(ONE_TRIAL, closed)
    wrong = tmp_path / "wrong"
    wrong.write_text("another-token" * 3)
    right = search.environment["RAY_AUTH_TOKEN_PATH"]
    search.environment["RAY_AUTH_TOKEN_PATH"] = str(wrong)
    refused = search.det("experiment", "create", *search.written(), check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode == 1, said
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if "cannot connect" in line]
    assert "RAY_AUTH_MODE is token here" in line
    assert "experiment 1 is paused; to try again: det experiment activate 1" in said
    (listed,) = json.loads(search.det("experiment", "list", "--json").stdout)
    experiment = listed["id"]
    assert listed["state"] == "PAUSED"
    assert "cannot connect" in search.det("experiment", "describe", "1").stdout
    search.environment["RAY_AUTH_TOKEN_PATH"] = right
    search.activate(experiment)
    assert search.record(experiment)["state"] == "COMPLETED"


def test_the_queue_runs_an_experiment_on_a_cluster_with_authentication(
    closed: RayCluster, make_search: MakeSearch
) -> None:
    """The daemon was started by somebody who does not know the cluster."""
    search = make_search(ONE_TRIAL, closed)
    experiment = search.create()
    without = {name: value for name, value in search.env().items() if not name.startswith(("RAY_", "DET_ENGINE"))}
    with subprocess.Popen(
        [*DET, "queue", "serve", "--idle", "60"], env=without, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()  # it serves
        search.det("experiment", "activate", str(experiment), "--detach")
        search.wait_for(lambda store: store.queue.find(experiment) is None)
        daemon.terminate()
    assert search.record(experiment)["state"] == "COMPLETED", search.det("queue", "--json").stdout


def test_nothing_of_ours_listens_on_the_network(cluster: RayCluster, tmp_path: Path) -> None:
    """Neither this process nor jobs nor their warm processes. Bridge and actors listen for Ray."""
    with opened(cluster, tmp_path) as engine:
        wait_for_slots(engine, 1)
        bench = Bench(engine, tmp_path)
        bench.write("program.py", "import time\nprint('ready', flush=True)\ntime.sleep(1000)")
        key = bench.start("python3 program.py")
        bench.line("ready")
        workers = [one for node in cluster.nodes.values() for one in node.workers() if one not in node.actors()]
        assert len(workers) >= 2
        for process in (psutil.Process(), *workers):
            assert [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN] == []
        engine.kill(key)
        bench.finish(key)


def test_an_address_of_the_client_in_the_environment(
    cluster: RayCluster, make_search: MakeSearch, tmp_path: Path
) -> None:
    search = make_search(ONE_TRIAL, cluster)
    search.create()
    search.environment |= {"RAY_ADDRESS": "ray://127.0.0.2:10001", "DET_ENGINE": "ray"}
    done = search.det("cluster", check=False)
    assert done.returncode != 0
    assert "RAY_ADDRESS is ray://127.0.0.2:10001: only HOST:PORT" in done.stderr


def test_ray_is_loaded_by_the_bridge_alone() -> None:
    program = "import sys; import determined.engines.ray.engine, determined.cli; assert 'ray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr == ""
    help_ = "import sys; from determined.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{help_}assert 'ray' not in sys.modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_an_unreachable_cluster_leaves_no_experiment_that_seems_to_run(make_search: MakeSearch) -> None:
    search = make_search(ONE_TRIAL)
    refused = search.det("experiment", "create", *search.written(), "--engine", "ray:127.0.0.1:1", check=False)
    assert "cannot connect to the Ray cluster 127.0.0.1:1" in refused.stderr
    (listed,) = json.loads(search.det("experiment", "list", "--json").stdout)
    assert listed["state"] == "PAUSED"


@pytest.mark.parametrize("address", ["ray://127.0.0.2:10001"])
def test_an_address_of_the_client(make_search: MakeSearch, cluster: RayCluster, address: str) -> None:
    search = make_search(ONE_TRIAL)
    experiment = search.create()
    done = search.det("experiment", "activate", str(experiment), "--engine", address, check=False)
    assert done.returncode != 0
    assert "ray job submit" in done.stderr
