"""Build the environment variables of a job.

They consist of the variables of the engine's process, those of the job, and those that describe its slots.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping

from determined.engines.base import Interpreter, Job, Part
from determined.engines.slots import Slots, gpus_of_machine

# Variables of a run: the engine itself may run inside one (a trial that creates an experiment), and its jobs must not
# mistake these for their own.
_OF_ANOTHER_RUN = re.compile(
    r"DET_(TASK|TRIAL|EXPERIMENT|ALLOCATION|STEPS|LATEST|HPARAMS|SLOT_IDS|CONTAINER|RESOURCES|GPU|CHIEF|SEARCHER"
    r"|TIME_METRIC|DOORBELL|RUNNER|RUNS_DIR|RECORDED_RUNS_DIR|SESSION|MASTER|INTER_NODE)\w*"
    r"|USE_(TORCH_DISTRIBUTED|HOROVOD|DEEPSPEED)|TORCHELASTIC_\w+|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)"
    r"|ROLE_NAME|MASTER_(ADDR|PORT)"
)


def without_run_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that belong to a run."""
    return {name: value for name, value in environment.items() if not _OF_ANOTHER_RUN.fullmatch(name)}


def job_environment(
    job: Job,
    ids: list[int],
    slots: Slots,
    wakeup_socket: str,
    environment: Mapping[str, str],
    interpreter: Interpreter,
) -> dict[str, str]:
    """Return all environment variables of a job that the interpreter runs on these slots."""
    # In this order: the variables of the job win over those of the interpreter, and these over the inherited ones.
    given = {**interpreter.environment(without_run_variables(environment)), **job.environment}
    gpus = [slots.gpus[number] for number in ids] if slots.gpus else []
    placed = slots.environment(ids, given)
    if job.part is not None and job.part.gpus:
        gpus, ids = gpus_of_machine(job.part.gpus)
        placed = {"CUDA_VISIBLE_DEVICES": ",".join(job.part.gpus)}
    return {
        **given,
        **placed,
        # Programs read PWD instead of asking the system, and would see the directory of the runner.
        "PWD": os.path.abspath(job.directory),
        # `python3` in a command must be the interpreter that runs the job.
        "PATH": os.pathsep.join([os.path.dirname(interpreter.python), given.get("PATH", os.defpath)]),
        "DET_ALLOCATION_ID": job.key,
        "DET_DOORBELL": wakeup_socket,  # the path of the runner's socket
        "DET_AGENT_ID": socket.gethostname(),
        # CPU slots are numbered from 0 in each job: programs start one worker per number.
        "DET_SLOT_IDS": json.dumps(ids if gpus else list(range(len(ids)))),
        "DET_GPU_UUIDS": json.dumps([gpu.uuid for gpu in gpus]),
        **_rendezvous(job),
    }


def _rendezvous(job: Job) -> dict[str, str]:
    """Return the variables that say where the nodes of a job are, and where their ranks meet."""
    part = job.part or Part(0, ("127.0.0.1",), (max(1, job.slots),), 0)
    variables = {
        "DET_CONTAINER_ADDRS": json.dumps(part.addresses),
        "DET_CONTAINER_RANK": str(part.rank),
        "DET_CONTAINER_SLOT_COUNTS": json.dumps(part.slots),
    }
    # A job on one machine chooses a free port itself, see launch/torch_distributed.py.
    return variables if len(part.addresses) == 1 else {**variables, "C10D_PORT": str(part.port)}
