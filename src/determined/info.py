"""The description of a run for its process: read from a trial's environment, or set by the run it opened."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from determined.errors import InvalidConfigurationException

TRIAL = "TRIAL"


@dataclass(frozen=True)
class TrialInfo:
    """The trial of this process. User programs read the underscored fields as well."""

    trial_id: int
    experiment_id: int
    trial_seed: int
    hparams: dict[str, Any]
    _config: dict[str, Any] = field(default_factory=dict)
    _steps_completed: int = 0
    _trial_run_id: int = 0
    _debug: bool = False
    _inter_node_network_interface: str | None = None
    _time_metric: str | None = None  # the unit in which the searcher measures lengths
    _rungs: tuple[float, ...] = ()  # the lengths at which the searcher compares trials


@dataclass(frozen=True)
class RendezvousInfo:
    """The nodes of a run by rank: their addresses and slots, and the rank of this node."""

    container_addrs: list[str]
    container_rank: int
    container_slot_counts: list[int]


@dataclass(frozen=True)
class ResourcesInfo:
    """The devices assigned to this process."""

    gpu_uuids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClusterInfo:
    """The description of the run to which this process belongs."""

    master_url: str
    cluster_id: str
    agent_id: str
    slot_ids: list[int]
    task_id: str
    allocation_id: str
    session_token: str = field(repr=False)  # hidden in logs and tracebacks
    task_type: str
    master_cert_name: str | None = None
    master_cert_file: str | None = None
    _latest_checkpoint: str | None = None
    _trial_info: TrialInfo | None = None
    _rendezvous_info: RendezvousInfo = field(default_factory=lambda: RendezvousInfo(["127.0.0.1"], 0, [1]))
    _resources_info: ResourcesInfo = field(default_factory=ResourcesInfo)

    @property
    def trial(self) -> TrialInfo:
        """The trial of this process; raises `RuntimeError` for a task of another type."""
        if self._trial_info is None or self.task_type != TRIAL:
            raise RuntimeError(f"this is a task of type {self.task_type}: only a {TRIAL} has trial information")
        return self._trial_info

    @property
    def latest_checkpoint(self) -> str | None:
        """The checkpoint to load now: the trial's newest, else the one it starts from, else None."""
        return self._latest_checkpoint if self.task_type == TRIAL else None

    @property
    def user_data(self) -> dict[str, Any]:
        """The `data` block of the experiment configuration."""
        if self.task_type != TRIAL or self._trial_info is None:
            return {}
        data = self._trial_info._config.get("data") or {}
        assert isinstance(data, dict)
        return data

    @property
    def container_addrs(self) -> list[str]:
        """The addresses of the machines of this run, by rank."""
        return self._rendezvous_info.container_addrs

    @property
    def container_slot_counts(self) -> list[int]:
        """The number of slots on each machine of this run."""
        return self._rendezvous_info.container_slot_counts

    @property
    def container_rank(self) -> int:
        """The rank of this machine."""
        return self._rendezvous_info.container_rank

    @property
    def gpu_uuids(self) -> list[str]:
        """The GPUs that this process may use."""
        return self._resources_info.gpu_uuids


def get_cluster_info() -> ClusterInfo | None:
    """Return the trial that the environment describes, else the run opened in this process, else None.

    The environment is read at each call.
    """
    described = from_env(os.environ)
    if described is not None:
        return described
    return _open_runs[-1] if _open_runs else None


# The open runs of this process, oldest first.
_open_runs: list[ClusterInfo] = []


def enter_run(info: ClusterInfo) -> None:
    """Let `get_cluster_info()` return this run from now on."""
    _open_runs.append(info)


def leave_run(info: ClusterInfo) -> None:
    """Remove a run that has ended, so that the enclosing one is visible again. Unknown runs are ignored."""
    # By identity: two runs of a process may have equal descriptions.
    for position, known in enumerate(_open_runs):
        if known is info:
            del _open_runs[position]
            return


def from_env(env: Mapping[str, str]) -> ClusterInfo | None:
    """Return the info that environment variables describe; None unless they describe a trial."""
    if env.get("DET_TASK_TYPE") != TRIAL:
        return None
    config = _json(env, "DET_EXPERIMENT_CONFIG", dict, {})
    slot_ids = _json(env, "DET_SLOT_IDS", list, [])
    trial = TrialInfo(
        trial_id=_int(env, "DET_TRIAL_ID"),
        experiment_id=_int(env, "DET_EXPERIMENT_ID"),
        trial_seed=_int(env, "DET_TRIAL_SEED"),
        hparams=_json(env, "DET_HPARAMS", dict, {}),
        _config=config,
        _steps_completed=_int(env, "DET_STEPS_COMPLETED", 0),
        _trial_run_id=_int(env, "DET_TRIAL_RUN_ID", 0),
        _debug=bool(config.get("debug")),
        _inter_node_network_interface=env.get("DET_INTER_NODE_NETWORK_INTERFACE") or None,
        _time_metric=env.get("DET_TIME_METRIC") or None,
        _rungs=tuple(_json(env, "DET_TRIAL_RUNGS", list, [])),
    )
    return ClusterInfo(
        master_url=env.get("DET_MASTER", "local"),
        cluster_id=env.get("DET_CLUSTER_ID", ""),
        agent_id=env.get("DET_AGENT_ID", ""),
        slot_ids=slot_ids,
        task_id=env.get("DET_TASK_ID", ""),
        allocation_id=env.get("DET_ALLOCATION_ID", ""),
        session_token=env.get("DET_SESSION_TOKEN", ""),
        task_type=TRIAL,
        master_cert_name=env.get("DET_MASTER_CERT_NAME"),
        master_cert_file=env.get("DET_MASTER_CERT_FILE"),
        _latest_checkpoint=env.get("DET_LATEST_CHECKPOINT") or None,
        _trial_info=trial,
        _rendezvous_info=RendezvousInfo(
            container_addrs=_json(env, "DET_CONTAINER_ADDRS", list, ["127.0.0.1"]),
            container_rank=_int(env, "DET_CONTAINER_RANK", 0),
            container_slot_counts=_json(env, "DET_CONTAINER_SLOT_COUNTS", list, [max(1, len(slot_ids))]),
        ),
        _resources_info=ResourcesInfo(gpu_uuids=_json(env, "DET_GPU_UUIDS", list, [])),
    )


def to_env(info: ClusterInfo) -> dict[str, str]:
    """Return the environment variables from which `from_env` reads the same info."""
    trial = info.trial
    env = {
        "DET_TASK_TYPE": info.task_type,
        "DET_MASTER": info.master_url,
        "DET_CLUSTER_ID": info.cluster_id,
        "DET_AGENT_ID": info.agent_id,
        "DET_SLOT_IDS": json.dumps(info.slot_ids),
        "DET_TASK_ID": info.task_id,
        "DET_ALLOCATION_ID": info.allocation_id,
        "DET_SESSION_TOKEN": info.session_token,
        "DET_TRIAL_ID": str(trial.trial_id),
        "DET_EXPERIMENT_ID": str(trial.experiment_id),
        "DET_TRIAL_SEED": str(trial.trial_seed),
        "DET_TRIAL_RUN_ID": str(trial._trial_run_id),
        "DET_STEPS_COMPLETED": str(trial._steps_completed),
        "DET_HPARAMS": json.dumps(trial.hparams),
        "DET_EXPERIMENT_CONFIG": json.dumps(trial._config),
        "DET_CONTAINER_ADDRS": json.dumps(info.container_addrs),
        "DET_CONTAINER_RANK": str(info.container_rank),
        "DET_CONTAINER_SLOT_COUNTS": json.dumps(info.container_slot_counts),
        "DET_GPU_UUIDS": json.dumps(info.gpu_uuids),
        # JSON has no tuples; `from_env` makes one again.
        "DET_TRIAL_RUNGS": json.dumps(trial._rungs),
    }
    optional = {
        "DET_LATEST_CHECKPOINT": info.latest_checkpoint,
        "DET_MASTER_CERT_NAME": info.master_cert_name,
        "DET_MASTER_CERT_FILE": info.master_cert_file,
        "DET_INTER_NODE_NETWORK_INTERFACE": trial._inter_node_network_interface,
        "DET_TIME_METRIC": trial._time_metric,
    }
    return env | {name: value for name, value in optional.items() if value is not None}


def _int(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return an integer variable; raise InvalidConfigurationException if it is invalid."""
    text = env.get(name)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        said = "is not set" if text is None else f"is {text!r}"
        raise InvalidConfigurationException(
            message=f"the environment describes a trial, but {name} {said}: expected a whole number"
        ) from None


def _json(env: Mapping[str, str], name: str, kind: type, default: Any) -> Any:
    """Return a JSON variable; raise InvalidConfigurationException if it is invalid."""
    text = env.get(name)
    if text is None:
        return default
    try:
        value = json.loads(text)
    except ValueError as error:
        # The text itself may contain secrets, so only the parser's message is shown.
        raise InvalidConfigurationException(message=f"the variable {name} is not JSON: {error}") from None
    if not isinstance(value, kind):
        raise InvalidConfigurationException(
            message=f"the variable {name} holds a JSON {type(value).__name__}, expected a {kind.__name__}"
        )
    return value
