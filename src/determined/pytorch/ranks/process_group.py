"""torch's process group: join it with the right rank, and name the rank that is missing when a collective fails."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from determined.core.distributed import DistributedContext, DummyDistributedContext, describe_failure
from determined.core.ranks import rendezvous
from determined.errors import DistributedError

logger = logging.getLogger("determined.pytorch")

# Parts of messages of gloo and NCCL: torch raises a plain RuntimeError for most transport failures.
# Searched for in the message, because other RuntimeErrors, such as those about shapes, must stay as they are.
_WORDS_OF_TRANSPORTS = ("/gloo/", "NCCL", "Connection closed by peer")

_LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def joined(distributed: DistributedContext | None) -> Iterator[DistributedContext]:
    """Yield the ranks of this job: those given, else the launcher's, else those of an initialised process group.

    A process group created here is destroyed at the end of the block. Raises RuntimeError if variables of the launcher
    are missing.
    """
    if os.environ.get("USE_HOROVOD"):
        logger.warning("horovod is not maintained: torch's own distributed training is used instead")
    ranks = distributed or _ranks_of_this_process()
    # A process group of the program is used and not destroyed.
    if ranks.size == 1 or dist.is_initialized():
        yield ranks
        return
    missing = [name for name in _LAUNCHER_VARIABLES if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"this is rank {ranks.rank} of {ranks.size}, and torch.distributed is not initialised: start it with "
            "torchrun or python -m determined.launch.torch_distributed, or call "
            f"torch.distributed.init_process_group first (missing in the environment: {', '.join(missing)})"
        )
    # gloo reads the variable when the group is created.
    with _gloo_on_loopback(ranks):
        timeout = rendezvous.collective_timeout()
        dist.init_process_group(
            _backend(ranks),
            # A prefix per run: otherwise a second run in this process would read the addresses of the first one.
            store=c10d.PrefixStore(f"determined/run/{next(_runs)}", _launchers_store(ranks.rank, ranks.size, timeout)),
            rank=ranks.rank,
            world_size=ranks.size,
            timeout=timeout,
        )
        try:
            yield ranks
        finally:
            # Also after an error, so that the next run in this process can create a group.
            dist.destroy_process_group()


@contextmanager
def naming_lost_ranks(distributed: DistributedContext) -> Iterator[None]:
    """Turn an error of torch's transport inside the block into a DistributedError that names the rank and its host.

    For example the collective in backward fails if another rank was killed.
    """
    try:
        yield
    except RuntimeError as error:
        if distributed.size > 1 and _is_of_the_transport(error):
            raise DistributedError(describe_failure(distributed, "a collective of training", error)) from error
        raise


def _is_of_the_transport(error: RuntimeError) -> bool:
    """Return whether an error comes from the communication between ranks."""
    return isinstance(error, dist.DistError) or any(word in str(error) for word in _WORDS_OF_TRANSPORTS)


def _ranks_of_this_process() -> DistributedContext:
    """Return the ranks of the launcher, else of an initialised process group, else a single one."""
    # The launcher's address and port are needed only to create a process group.
    if all(name in os.environ for name in _LAUNCHER_VARIABLES[:3]):
        # torchrun with one process: no communication is needed.
        if int(os.environ["WORLD_SIZE"]) == 1:
            return DummyDistributedContext()
        if "LOCAL_WORLD_SIZE" in os.environ and "GROUP_RANK" in os.environ:
            return DistributedContext.from_torch_distributed(chief_ip=os.environ.get("MASTER_ADDR"))
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        # Processes that the program started itself are assumed to be on this machine.
        rank, size = dist.get_rank(), dist.get_world_size()
        return DistributedContext(rank=rank, size=size, local_rank=rank, local_size=size, cross_rank=0, cross_size=1)
    return DummyDistributedContext()


@contextmanager
def _gloo_on_loopback(ranks: DistributedContext) -> Iterator[None]:
    """Make gloo listen on the loopback interface only, if all ranks are on this machine.

    Other hosts then cannot connect. A value set by the user is kept.
    """
    name = "GLOO_SOCKET_IFNAME"
    if ranks.local_size != ranks.size or name in os.environ:
        # The user's choice, or ranks on several hosts, which must reach each other.
        yield
        return
    os.environ[name] = "lo0" if sys.platform == "darwin" else "lo"
    try:
        yield
    # Not left behind: child processes of the program would inherit it.
    finally:
        os.environ.pop(name, None)


def _backend(ranks: DistributedContext) -> str:
    """Return nccl if every rank of this node has a GPU to itself, which nccl requires, else gloo."""
    return "nccl" if torch.cuda.is_available() and ranks.local_size <= torch.cuda.device_count() else "gloo"


_runs = itertools.count(1)


# Cached, because all runs of a process use the same store with different prefixes.
@cache
def _launchers_store(rank: int, size: int, timeout: timedelta) -> c10d.Store:
    """Return the key-value store through which the ranks meet, opened once per process.

    Its port cannot be released and bound again between two runs without a rank missing the new store.
    """
    return rendezvous.find_store(rank, size, chief_ip=None, port=None, timeout=timeout)
