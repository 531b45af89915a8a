"""Find out whether a Ray cluster grows: recognize an autoscaler by what it has recorded in the cluster.

Only the processes that talk to Ray import this module.
"""

from __future__ import annotations

import json
import os

import ray
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply
from ray.experimental.internal_kv import _internal_kv_get

VARIABLE = "DET_CLUSTER_GROWS"
_STATUS = "__autoscaling_status"
# Without a configuration the monitor of Ray's head gives each node a type of its own, with this prefix and its id.
_TYPE_WITHOUT_CONFIGURATION = "node_"


def grows() -> bool | None:
    """Return whether an autoscaler adds nodes for demand that no node can serve now; None if that is not known yet.

    The variable DET_CLUSTER_GROWS decides if it is set: there are autoscalers that are not Ray's.
    """
    said = os.environ.get(VARIABLE, "").lower()
    if said:
        return said in ("1", "true", "yes", "on")
    return True if _has_cloud_instances() else _has_node_types()


def _has_node_types() -> bool | None:
    """Return whether the report of Ray's autoscaler v1 has node types of a configuration; None without a report."""
    status = _internal_kv_get(_STATUS)
    report = json.loads(status).get("autoscaler_report") if status else None
    if report is None:
        return None
    types = {*report["active_nodes"], *(report.get("node_type_mapping") or {}).values()}
    return any(not name.startswith(_TYPE_WITHOUT_CONFIGURATION) for name in types)


def _has_cloud_instances() -> bool:
    """Return whether nodes belong to Ray's autoscaler v2, which identifies each by the id of its machine or pod."""
    client = ray._private.worker.global_worker.gcs_client
    namespace, key = ray._raylet.GCS_AUTOSCALER_STATE_NAMESPACE, ray._raylet.GCS_AUTOSCALER_V2_ENABLED_KEY
    if client.internal_kv_get(key.encode(), namespace=namespace.encode()) != b"1":
        return False
    reply = GetClusterStatusReply.FromString(client.get_cluster_status())
    return any(node.instance_id for node in reply.cluster_resource_state.node_states)
