"""Run a script or a trial class once for each slot under torchrun, with or without a cluster.

python -m determined.launch.torch_distributed [TORCHRUN OPTIONS --] SCRIPT [ARGUMENTS]
python -m determined.launch.torch_distributed [TORCHRUN OPTIONS --] --trial module:Class
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from determined.info import ClusterInfo, get_cluster_info

USAGE = (
    "usage: python -m determined.launch.torch_distributed [TORCHRUN OPTIONS --] "
    "(--trial module:Class | SCRIPT [ARGUMENTS])"
)

# torchrun itself shuts down on other signals. These have no meaning for it and are forwarded to the workers.
_FORWARDED = ("SIGUSR1", "SIGUSR2", "SIGWINCH")


class UsageError(ValueError):
    """A command line from which the launcher cannot tell what to run."""


def main(arguments: list[str]) -> int:
    """Run the workers until they end, and return 0 if all of them exited with 0.

    Otherwise return the exit code of the first worker that failed, or 2 for a wrong command line.
    """
    try:
        options, command = split_arguments(arguments)
    except UsageError as error:
        sys.stderr.write(f"{USAGE}\n{error}\n")
        return 2
    info = get_cluster_info()
    os.environ.update(worker_environment(info, os.environ, has_gpus=_gpu_count() > 0))
    torchrun = torchrun_options(info, slots=_slots(info))
    # Every worker is wrapped, so that the engine can tell the lines of the ranks apart.
    worker = [sys.executable, "-m", "determined.launch.wrap_rank", "RANK", "--", *command]
    return _run([*torchrun, *options, "--no-python", *worker])


def split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the command line into the options for torchrun and the command that every worker runs."""
    options: list[str] = []
    rest = arguments
    if arguments and arguments[0].startswith("-") and arguments[0] != "--trial":
        # Otherwise it is unknown where the options of torchrun end.
        if "--" not in arguments:
            raise UsageError("options for torchrun must be followed by `--` and the script")
        position = arguments.index("--")
        options, rest = arguments[:position], arguments[position + 1 :]
    if not rest:
        raise UsageError("name a script, or a trial class with --trial")
    if rest[0] == "--trial":
        if len(rest) < 2:
            raise UsageError("--trial needs a class, for example --trial model_def:MyTrial")
        return options, [sys.executable, "-m", "determined.exec.harness", *rest[1:]]
    return options, _interpreted(rest)


def torchrun_options(info: ClusterInfo | None, *, slots: int) -> list[str]:
    """Return the options for torchrun.

    On one node the workers meet at a free loopback port, else at the chief's address.
    """
    # No restarts by torchrun: a failed trial is restarted by its runner, from a checkpoint.
    options = [f"--nproc-per-node={slots}", "--max-restarts=0"]
    if info is None or len(info.container_addrs) == 1:
        return [
            *options,
            "--nnodes=1",
            "--rdzv-backend=c10d",
            # Port 0: the system chooses a free one, so that several jobs on a machine do not collide.
            "--rdzv-endpoint=127.0.0.1:0",
            f"--rdzv-id={uuid.uuid4()}",
            # Not reachable from other machines.
            "--local-addr=127.0.0.1",
        ]
    return [
        *options,
        f"--nnodes={len(info.container_addrs)}",
        f"--node-rank={info.container_rank}",
        f"--master-addr={info.container_addrs[0]}",
        # The default of Determined's own launcher.
        f"--master-port={os.environ.get('C10D_PORT', '29400')}",
    ]


def worker_environment(info: ClusterInfo | None, env: Mapping[str, str], *, has_gpus: bool) -> dict[str, str]:
    """Return the environment variables to add for the workers."""
    on_one_node = info is None or len(info.container_addrs) == 1
    added = {
        "USE_TORCH_DISTRIBUTED": "True",
        "DET_CHIEF_IP": "127.0.0.1" if info is None or on_one_node else info.container_addrs[0],
        "PYTHONUNBUFFERED": "1",  # output goes through a pipe, in which lines would otherwise be delayed
    }
    # On one node Gloo should listen on the loopback interface only, so that other hosts cannot connect to it.
    if on_one_node and not has_gpus and "GLOO_SOCKET_IFNAME" not in env:
        added["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    if "OMP_NUM_THREADS" not in env:
        added["OMP_NUM_THREADS"] = "1"  # torchrun would set the same value, but with a warning
    return added


def _interpreted(command: list[str]) -> list[str]:
    """Return the command with scripts run by this interpreter, not by the first `python3` on PATH."""
    if command[0] in {"python", "python3"}:
        return [sys.executable, *command[1:]]
    if command[0].endswith(".py"):
        if not Path(command[0]).is_file():
            raise UsageError(f"there is no script {command[0]!r}")
        return [sys.executable, *command]
    return command


def _slots(info: ClusterInfo | None) -> int:
    """Return the number of workers: the slots of this node, DET_SLOTS, or the number of GPUs (at least 1)."""
    if info is not None:
        return info.container_slot_counts[info.container_rank]
    given = os.environ.get("DET_SLOTS")
    if given is None:
        return max(1, _gpu_count())
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"DET_SLOTS is {given!r}: expected a whole number from 1 on")
    return int(given)


def _gpu_count() -> int:
    """Return the number of visible GPUs; torch is imported here, because a wrong command line does not need it."""
    import torch

    return torch.cuda.device_count()


def _run(torchrun_arguments: list[str]) -> int:
    """Run torchrun in this process and return the exit code."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    for name in _FORWARDED:
        signal.signal(getattr(signal, name), _forward)
    arguments = torchrun.parse_args(torchrun_arguments)
    try:
        # Without a directory for its logs torchrun makes one, where the workers report errors, and leaves it behind.
        with tempfile.TemporaryDirectory(prefix="torchelastic_") as directory:
            # The user may have chosen a directory.
            arguments.log_dir = arguments.log_dir or directory
            torchrun.run(arguments)
    except ChildFailedError as error:
        # The launcher's last line names the rank: the runner takes the reason of the failure from its log.
        rank, failure = error.get_first_failure()
        sys.stderr.write(f"the worker of rank {rank} failed first, with exit code {failure.exitcode}\n")
        return _exit_code(failure.exitcode)
    except SignalException as error:
        sys.stderr.write(f"ended by {error.sigval.name}\n")
        return 128 + int(error.sigval)
    return 0


def _forward(number: int, _frame: object) -> None:
    """Send a signal to all child processes."""
    # Imported in the handler, which runs seldom.
    import psutil

    for child in psutil.Process().children():
        child.send_signal(number)


def _exit_code(code: int) -> int:
    """Return the exit code after a failure: 128 + n after signal n, and 1 if the worker's exit code was 0."""
    return 128 - code if code < 0 else code or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
