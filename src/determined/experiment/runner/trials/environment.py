"""The environment variables of a trial's processes."""

from __future__ import annotations

import os
import secrets
import socket
import uuid

from determined.config.stored import StoredConfig
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.info import TRIAL, ClusterInfo, RendezvousInfo, TrialInfo, to_env
from determined.store.databases.location import shown


def allocation_key(experiment_id: int, trial: LiveTrial, run: int) -> str:
    """Return the key of one start of a trial's processes; `run` is the number of the start, from 1."""
    return f"{experiment_id}.{trial.spec.request_id}.{run}"


def trial_environment(
    *,
    experiment_id: int,
    config: StoredConfig,
    trial: LiveTrial,
    run: int,
    key: str,
    latest_checkpoint: str | None,
    steps_completed: int,
    slots: int,
    store_place: str,
    time_metric: str | None,
    variables: dict[str, str],
) -> dict[str, str]:
    """Return the environment variables of a trial.

    These are the variables of Determined's platform, those that lead to the store and the runner, and `variables`: the
    user's own, as set by the configuration and the startup hook.
    """
    info = ClusterInfo(
        master_url="local",
        # The same for all trials of a store, as a cluster id is; without the password in the URL.
        cluster_id=str(uuid.uuid5(uuid.NAMESPACE_URL, shown(store_place))),
        agent_id=socket.gethostname(),
        slot_ids=list(range(slots)),  # placeholder: the engine sets the real ones
        task_id=f"{experiment_id}.{trial.spec.request_id}",
        allocation_id=key,
        session_token=secrets.token_urlsafe(32),
        task_type=TRIAL,
        _latest_checkpoint=latest_checkpoint,
        _trial_info=TrialInfo(
            trial_id=trial.id,
            experiment_id=experiment_id,
            trial_seed=trial.spec.seed,
            hparams=trial.spec.hparams,
            _config=config.plain,
            _steps_completed=steps_completed,
            _trial_run_id=run,
            _time_metric=time_metric,
            _rungs=trial.spec.rungs,
        ),
        _rendezvous_info=RendezvousInfo(["127.0.0.1"], 0, [max(1, slots)]),
    )
    placement = {"DET_RESOURCES_ID": key, "DET_RESOURCES_TYPE": "process"}
    # DET_RUNNER marks a trial that a runner started, see core/supervision/managed.py.
    ours = {"DET_STORE": store_place, "DET_RUNNER": str(os.getpid())}
    # The library's own variables win over the user's: a wrong DET_STORE would lose all reports.
    return {**variables, **to_env(info), **placement, **ours}


def user_variables(config: StoredConfig) -> dict[str, str]:
    """Return the variables of `environment.environment_variables`.

    Entries are NAME=VALUE, or NAME, which is copied from the current environment if it is set.
    """
    given = config.environment.environment_variables
    if isinstance(given, dict):  # lists by device type
        given = [*(given.get("cpu") or []), *(given.get("cuda") or [])]
    variables = {}
    for entry in given:
        name, equals, value = str(entry).partition("=")
        if equals or name in os.environ:
            variables[name] = value if equals else os.environ[name]
    return variables
