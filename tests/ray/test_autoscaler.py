"""A cluster that grows: Ray's own autoscaler adds a node for a trial that fits on none."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.ray.cluster import HEAD, RayCluster
from tests.ray.conftest import TWO_RANKS, MakeSearch


def autoscaling(directory: Path) -> RayCluster:
    """Start a head without slots, with an autoscaler that may start a raylet with two CPUs on this machine."""
    with socket.create_server((HEAD, 0)) as probe:
        port = int(probe.getsockname()[1])
    worker = {"resources": {"CPU": 2, "object_store_memory": 80_000_000}, "node_config": {}, "max_workers": 1}
    config = {
        "cluster_name": "test",
        "max_workers": 1,
        "provider": {"type": "fake_multinode", "gcs_address": f"{HEAD}:{port}"},
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": worker,
        },
        "head_node_type": "ray.head.default",
        "idle_timeout_minutes": 5,
        "upscaling_speed": 1.0,
        **{name: {} for name in ("auth", "docker", "file_mounts")},
        **{f"{name}_commands": [] for name in ("initialization", "setup", "head_setup", "worker_setup")},
        **{f"{name}_start_ray_commands": [] for name in ("head", "worker")},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
    }
    path = directory / "autoscaler.json"
    path.write_text(json.dumps(config))
    variables = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    return RayCluster(cpus=0, port=port, variables=variables, head_options=(f"--autoscaling-config={path}",))


def test_a_node_is_added_for_a_pending_trial(make_search: MakeSearch, tmp_path: Path) -> None:
    with autoscaling(tmp_path) as cluster:
        search = make_search(TWO_RANKS, cluster)
        assert "with an autoscaler" in search.det("cluster").stdout
        experiment = search.create()
        # The variable overrides this.
        search.environment["DET_CLUSTER_GROWS"] = "0"
        assert "a trial wants 2 CPU slots, the Ray cluster has 0" in search.activate(experiment, expect=1)
        del search.environment["DET_CLUSTER_GROWS"]
        search.activate(experiment)
        assert search.record(experiment)["state"] == "COMPLETED"
        assert json.loads(search.det("cluster", "--json").stdout)["grows"]
        # A cluster without an autoscaler is recognized, too: see `test_a_trial_that_can_never_fit`.
