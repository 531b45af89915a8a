"""Find the torch store through which the ranks of a job connect, and the timeout of collectives."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from determined.errors import DistributedError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

LOOPBACK = "127.0.0.1"  # as a number: the name `localhost` may resolve to another address or to IPv6


def collective_timeout() -> timedelta:
    """Return the timeout of the default process group, else of $DET_COLLECTIVE_TIMEOUT, else torch's default."""
    import torch.distributed as dist

    if dist.is_initialized():
        from torch.distributed.distributed_c10d import _get_default_group

        # Private calls: torch has no public function that returns the timeout of a group.
        group = _get_default_group()
        # A group has one backend for each type of device, and any of them has the timeout.
        for device in group._device_types:
            timeout = group._get_backend(device).options._timeout
            if isinstance(timeout, timedelta):
                return timeout
    given = os.environ.get("DET_COLLECTIVE_TIMEOUT")
    if given is None:
        # The same default as that of a program that calls `init_process_group` itself.
        return dist.constants.default_pg_timeout
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    # NaN and infinity fail this comparison.
    if not 0 < seconds < 1e9:
        raise ValueError(f"DET_COLLECTIVE_TIMEOUT is {given!r}: expected a number of seconds above 0")
    return timedelta(seconds=seconds)


# Kept open until the process exits: if the chief closed a store together with a context, other ranks could lose the
# connection while they open the next one.
_opened_stores: dict[tuple[object, ...], Store] = {}


def find_store(rank: int, size: int, *, chief_ip: str | None, port: int | None, timeout: timedelta) -> Store:
    """Return the store of the default process group, else one at the port the user gave, else the launcher's store."""
    import torch.distributed as dist

    if dist.is_initialized():
        # Private: torch has no public function that returns the store of the default group.
        from torch.distributed.distributed_c10d import _get_default_store

        return _get_default_store()
    host = chief_ip or LOOPBACK
    place: tuple[object, ...] = (host, port)
    if port is None:
        place = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
        if not all(place):
            raise RuntimeError(
                f"rank {rank} of {size} has no address of the other ranks. Start the ranks with torchrun or "
                "`python -m determined.launch.torch_distributed`, or call torch.distributed.init_process_group, "
                "or give DistributedContext a free port of the chief as pub_port"
            )
    # The process id, because a forked child cannot use its parent's connection; the rank, because the ranks of a test
    # may be threads of one process.
    key = (os.getpid(), rank, *place)
    if key not in _opened_stores:
        try:
            if port is None:
                _opened_stores[key] = _launcher_store(rank, size, timeout)
            else:
                _opened_stores[key] = _store_at(rank, host, port, timeout)
        # torch raises RuntimeError, or a subclass of it, for every failure of a store.
        except RuntimeError as error:
            raise DistributedError(f"rank {rank} of {size} did not find the other ranks: {error}") from error
    return _opened_stores[key]


def _launcher_store(rank: int, size: int, timeout: timedelta) -> Store:
    """Return the store that torchrun, or a launcher like it, describes in the environment."""
    from torch.distributed.rendezvous import rendezvous

    # The first result is the store; rank and size are known already.
    store: Store = next(rendezvous("env://", rank, size, timeout=timeout))[0]
    return store


def _store_at(rank: int, host: str, port: int, timeout: timedelta) -> Store:
    """Return a store hosted by the chief at this address."""
    from torch._C._distributed_c10d import TCPStore

    if rank != 0:
        # Workers connect when they first need the store, so the chief does not wait for them here.
        return TCPStore(host, port, is_master=False, timeout=timeout, wait_for_workers=False)
    # The socket is passed in, because the store would otherwise listen on every network interface.
    with socket.create_server((host, port)) as listener:
        return TCPStore(
            host,
            port,
            is_master=True,
            timeout=timeout,
            wait_for_workers=False,
            # The store takes over the descriptor.
            master_listen_fd=listener.detach(),
        )
