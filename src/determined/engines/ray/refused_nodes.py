"""Publish in the key-value store of the Ray cluster which nodes an experiment does not use, for `det cluster`.

Only the processes that talk to Ray import this module.
"""

from __future__ import annotations

import json
from typing import Any

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

_NAMESPACE = "determined"
_KEYS = "refused-"


def publish_refusals(experiment: str, refused: dict[str, str]) -> None:
    """Replace the entry of an experiment: the ids of nodes that it does not use, each with the reason."""
    key = f"{_KEYS}{experiment}"
    if not refused:
        _internal_kv_del(key, namespace=_NAMESPACE)
        return
    entry = {"job": ray.get_runtime_context().get_job_id(), "nodes": refused}
    _internal_kv_put(key, json.dumps(entry), namespace=_NAMESPACE)


def published_refusals() -> dict[str, dict[str, str]]:
    """Return the refused nodes of each running experiment. The entry that a killed runner has left is ignored."""
    running = {job["JobID"] for job in ray._private.state.jobs() if not job["IsDead"]}
    found = {}
    for key in _internal_kv_list(_KEYS, namespace=_NAMESPACE):
        entry: dict[str, Any] = json.loads(_internal_kv_get(key, namespace=_NAMESPACE) or "{}")
        if entry.get("job") in running:
            found[key.decode().removeprefix(_KEYS)] = entry["nodes"]
    return found
