"""Engines on the clusters of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from determined.engines.ray.engine import NodeData, RayEngine
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster


@contextmanager
def opened(
    cluster: RayCluster, directory: Path, slots_per_job: int = 1, data: dict[str, Any] | None = None, **options: Any
) -> Iterator[RayEngine]:
    """Open an engine whose jobs run in their own directories."""
    code = directory / "code.tar"
    code.write_bytes(b"code")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.settings().items():
            patch.setenv(name, value)
        node_data = NodeData("experiment", "tests.ray.setup:KeepDirectory", data or {}, code)
        engine = RayEngine(cluster.address, slots_per_job, node_data, **options)
    with engine:
        yield engine


def wait_for_slots(engine: RayEngine, slots: int) -> None:
    """Request slots, and wait until jobs can be started on them."""
    engine.announce_demand(slots)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == slots)
