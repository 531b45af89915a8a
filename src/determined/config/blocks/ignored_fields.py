"""A warning about fields that are validated but have no effect without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Fields without effect -> the reason, or what to do instead; empty if there is nothing to add.
_UNSERVED = {
    "records_per_epoch": "programs can read it; an epoch is as long as the data",
    "resources.weight": "",
    "resources.resource_pool": "",
    "resources.shm_size": "",
    "resources.devices": "",
    "resources.native_parallel": "",
    "resources.agent_label": "",
    "resources.slots": "it belongs to commands; the processes of a trial are slots_per_trial",
    "environment.image": "",
    "environment.force_pull_image": "",
    "environment.registry_auth": "",
    "environment.ports": "",
    "environment.proxy_ports": "",
    "environment.add_capabilities": "",
    "environment.drop_capabilities": "",
    "environment.pod_spec": "",
    "optimizations.average_training_metrics": "metrics are always averaged over the processes",
    "optimizations.mixed_precision": "use torch.amp in the trial",
    "optimizations.tensor_fusion_threshold": "",
    "optimizations.tensor_fusion_cycle_time": "",
    "optimizations.auto_tune_tensor_fusion": "",
    "optimizations.grad_updates_size_file": "",
    "profiling.begin_on_batch": "",
    "profiling.end_after_batch": "",
    "profiling.sync_timings": "",
    "retention_policy": "",
    "integrations": "",
    "slurm": "",
    "pbs": "",
    "security": "",
    "tensorboard_storage": "",
    "data_layer": "",
    "bind_mounts": "programs see the machine's own paths",
}


def unserved_warning(config: dict[str, Any]) -> str | None:
    """Return a warning with the fields of a configuration that have no effect, or None."""
    named = [f"{path} ({why})" if why else path for path, why in _used(config)]
    if not named:
        return None
    return f"These fields change nothing on this machine: {', '.join(named)}."


def _used(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields without effect that a configuration sets, each with its explanation."""
    for path, why in _UNSERVED.items():
        block, _, name = path.rpartition(".")
        inside = config.get(block) if block else config
        if isinstance(inside, dict) and inside.get(name) not in (None, {}, [], ""):
            yield path, _mounts_elsewhere(config) or why if path == "bind_mounts" else why
    policies = config.get("log_policies")
    for index, policy in enumerate(policies if isinstance(policies, list) else []):
        if isinstance(policy, dict) and policy.get("action") == "exclude_node":
            yield f"log_policies.{index}.action", "there is one machine"


def _mounts_elsewhere(config: dict[str, Any]) -> str:
    """Return an explanation for mounts whose path in a container would differ from that on this machine."""
    moved = [
        f"{mount['host_path']} and not {mount['container_path']}"
        for mount in config["bind_mounts"]
        if isinstance(mount, dict) and mount.get("host_path") != mount.get("container_path")
    ]
    return f"programs see {'; '.join(moved)}" if moved else ""
