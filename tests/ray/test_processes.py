"""No process of a job outlives the actor of its node, however that ends: also processes that left the job's session."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from determined.engines.ray.engine import RayEngine
from tests.engines.contract import Bench
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster, RayNode
from tests.ray.engines import opened, wait_for_slots

JOB = "setsid sleep 54321 & sleep 54321 & echo started; wait"


def sleepers(node: RayNode) -> list[psutil.Process]:
    return [one for one in node.processes() if _is_sleeper(one)]


def _is_sleeper(process: psutil.Process) -> bool:
    try:
        return bool(process.cmdline()[-1:] == ["54321"])
    except psutil.NoSuchProcess:
        return False


def started(engine: RayEngine, directory: Path, cluster: RayCluster) -> RayNode:
    wait_for_slots(engine, 1)
    bench = Bench(engine, directory)
    bench.start(JOB)
    bench.line("started")
    (node,) = [node for node in cluster.nodes.values() if node.actors()]
    wait_until(lambda: len(sleepers(node)) == 2)
    return node


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_killed_actor(cluster: RayCluster, tmp_path: Path, how: str) -> None:
    with opened(cluster, tmp_path) as engine:
        node = started(engine, tmp_path, cluster)
        (actor,) = node.actors()
        actor.send_signal(getattr(signal, how))
        wait_until(lambda: not sleepers(node), "a process of the job lives on")


def test_a_closed_engine(cluster: RayCluster, tmp_path: Path) -> None:
    with opened(cluster, tmp_path) as engine:
        node = started(engine, tmp_path, cluster)
    wait_until(lambda: not sleepers(node), "a process of the job lives on")


def test_a_signal_to_all_processes_leaves_the_bridge_to_its_runner(cluster: RayCluster, tmp_path: Path) -> None:
    """As from a service manager: the runner lets its trials save, for which it needs the bridge."""
    with opened(cluster, tmp_path) as engine:
        node = started(engine, tmp_path, cluster)
        (bridge,) = [one for one in psutil.Process().children() if "ray.bridge" in " ".join(one.cmdline())]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            bridge.send_signal(number)
        bench = Bench(engine, tmp_path)
        engine.announce_demand(2)
        wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
        assert bench.finish(bench.start("true")).exited.code == 0
        assert len(sleepers(node)) == 2


def test_a_killed_bridge(cluster: RayCluster, tmp_path: Path) -> None:
    """As when the runner is killed: the kernel kills its bridge, and Ray ends the actors."""
    with opened(cluster, tmp_path) as engine:
        node = started(engine, tmp_path, cluster)
        (bridge,) = [one for one in psutil.Process().children() if "ray.bridge" in " ".join(one.cmdline())]
        bridge.kill()
        wait_until(lambda: not sleepers(node), "a process of the job lives on")
        wait_until(lambda: not node.workers(), "a process of the engine lives on")
