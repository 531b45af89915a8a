"""The facts about a new run on which all its ranks agree, and the `ClusterInfo` of a standalone run made of them."""

from __future__ import annotations

import secrets
import socket
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from determined import info as cluster_info
from determined import paths
from determined.core.distributed import DistributedContext
from determined.info import ClusterInfo, RendezvousInfo, TrialInfo
from determined.store.process import Process, this_process


class RunFacts(NamedTuple):
    """The facts about a run that the chief determines for all ranks."""

    run_dir: Path
    cluster_id: str
    request_id: str
    session_token: str
    trial_seed: int
    run_key: str  # from which all ranks derive the keys of attempts
    process: Process

    @classmethod
    def fresh(cls) -> RunFacts:
        """Create a run directory, random ids and a seed for a new run."""
        return cls(
            run_dir=paths.new_run_dir(),
            cluster_id=str(uuid.uuid4()),
            request_id=str(uuid.uuid4()),
            session_token=secrets.token_urlsafe(32),
            # Valid as a seed for Python, numpy and torch alike.
            trial_seed=secrets.randbelow(2**31),
            run_key=str(uuid.uuid4()),
            process=this_process(),
        )


def standalone_info(
    facts: RunFacts,
    distributed: DistributedContext,
    hparams: dict[str, Any] | None,
    exp_conf: dict[str, Any] | None,
    trial_seed: int | None,
) -> ClusterInfo:
    """Return the ClusterInfo of a standalone run.

    Its slots are the visible GPUs, or else one per rank of this machine.
    """
    task_id = f"0.{facts.request_id}"
    return ClusterInfo(
        master_url="local",
        cluster_id=facts.cluster_id,
        agent_id=socket.gethostname(),
        # The slots of a standalone run are only shown; nothing is reserved.
        slot_ids=_visible_gpus() or list(range(distributed.local_size)),
        task_id=task_id,
        allocation_id=f"{task_id}.0",
        session_token=facts.session_token,
        task_type=cluster_info.TRIAL,
        _trial_info=TrialInfo(
            # The store assigns ids when something is recorded, and a run without records has none.
            trial_id=0,
            experiment_id=0,
            trial_seed=facts.trial_seed if trial_seed is None else trial_seed,
            hparams={} if hparams is None else hparams,
            _config={} if exp_conf is None else exp_conf,
        ),
        _rendezvous_info=RendezvousInfo(
            container_addrs=["127.0.0.1"],
            container_rank=0,
            container_slot_counts=[distributed.size],
        ),
    )


def _visible_gpus() -> list[int]:
    """Return the indices of the GPUs that torch sees, or an empty list if the program has not imported torch."""
    # Importing torch takes seconds, and a program without it uses no GPUs through it.
    torch = sys.modules.get("torch")
    return list(range(torch.cuda.device_count())) if torch is not None else []
