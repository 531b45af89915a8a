"""On how many nodes of a cluster a job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.contract import Bench
from tests.ray.cluster import RayCluster
from tests.ray.engines import opened, wait_for_slots


@pytest.mark.parametrize(("slots", "nodes"), [(2, 1), (3, 2), (4, 2)])
def test_a_job_is_on_as_few_nodes_as_possible(cluster: RayCluster, tmp_path: Path, slots: int, nodes: int) -> None:
    """Each of the three nodes has two slots."""
    with opened(cluster, tmp_path, slots) as engine:
        wait_for_slots(engine, slots)
        bench = Bench(engine, tmp_path)
        key = bench.start("sleep 1000", slots)
        assert (len(engine.where(key)), len(set(engine.where(key)))) == (slots, nodes)
        engine.kill(key)
        bench.finish(key)
