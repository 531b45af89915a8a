"""The child process of `survey.py`: prints the nodes and placement groups of a Ray cluster as one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import ray
from ray.util.placement_group import placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from determined.engines.ray.connecting import connect
from determined.engines.ray.growth import grows
from determined.engines.ray.placement import node_names
from determined.engines.ray.refused_nodes import published_refusals
from determined.engines.ray.versions import versions

_SECONDS_FOR_VERSIONS = 40.0


def main() -> None:
    """Read the request from standard input and print the answer."""
    request = json.load(sys.stdin)
    problem = connect(request["address"])
    answer = {"problem": problem} if problem is not None else _cluster(with_versions=request["with_versions"])
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    # Without Ray's own shutdown, which takes a second.
    os._exit(0)


def _cluster(*, with_versions: bool) -> dict[str, Any]:
    """Return the nodes with their free resources, and the placement groups and refused nodes of all experiments."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    free = ray._private.state.available_resources_per_node()
    found = _versions([node["NodeID"] for node in alive]) if with_versions else {}
    hosts = [node.get("NodeManagerHostname", "") for node in alive]
    names = node_names(hosts, [node["NodeManagerAddress"] for node in alive])
    nodes = [
        {
            "id": node["NodeID"],
            "name": name,
            "address": node["NodeManagerAddress"],
            "resources": {name: node["Resources"].get(name, 0) for name in ("CPU", "GPU")},
            "free": {name: free.get(node["NodeID"], {}).get(name, 0) for name in ("CPU", "GPU")},
            "versions": found.get(node["NodeID"]),
        }
        for node, name in zip(alive, names, strict=True)
    ]
    return {
        "ray": ray.__version__,
        "auth": os.environ.get("RAY_AUTH_MODE", ""),
        "nodes": nodes,
        "groups": _groups(),
        "refused": published_refusals(),
        "grows": bool(grows()),
    }


def _groups() -> list[dict[str, Any]]:
    """Return the placement groups of experiments: name, state, reason for waiting, and the node of each slot."""
    return [
        {
            "name": table["name"],
            "state": table["state"],
            "reason": str(table.get("stats", {}).get("scheduling_state", "")),
            "slots": [{name: int(count) for name, count in bundle.items()} for bundle in table["bundles"].values()],
            "nodes": list(table["bundles_to_node_id"].values()),
        }
        for table in placement_group_table().values()
        if table["name"].startswith("determined-") and table["state"] != "REMOVED"
    ]


def _versions(nodes: list[str]) -> dict[str, dict[str, str]]:
    """Return the versions on each node that answers in time."""
    remote = ray.remote(versions)
    asked = {
        remote.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(): node
        for node in nodes
    }
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_SECONDS_FOR_VERSIONS)
    found = {}
    for reference in ready:
        try:
            found[asked[reference]] = ray.get(reference)
        except ray.exceptions.RayError as error:
            found[asked[reference]] = {"problem": str(error).strip().splitlines()[-1]}
    return found


if __name__ == "__main__":
    main()
