"""The private interfaces of torch that this library uses, each with a check that `det doctor` runs.

A name that is not listed here is not used; a test compares the list with the sources.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True)
class Interface:
    """One private interface of torch: its names in the sources, its purpose, and a check that raises if it fails."""

    names: tuple[str, ...]
    needed_for: str
    check: Callable[[], None]


def failures() -> list[str]:
    """Check every interface and return one line for each that does not work as expected.

    This creates a process group of one rank and leaves it behind, so run it in a separate process.
    """
    # One rank needs no network; without this, gloo resolves the host name, which fails on some machines.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    found = []
    for interface in INTERFACES:
        try:
            interface.check()
        except Exception as error:  # noqa: BLE001 - after any error the others are still checked
            found.append(f"{', '.join(interface.names)} ({interface.needed_for}): {type(error).__name__}: {error}")
    return found


def _gloo() -> None:
    """Check the options of the gloo backend."""
    from torch._C import _distributed_c10d as c10d

    module: Any = c10d
    store = module.PrefixStore("determined", module.HashStore())
    options = module.ProcessGroupGloo._Options()
    options._timeout = timedelta(seconds=10)
    options._devices = [module.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._threads = 2
    module.ProcessGroupGloo(store, 0, 1, options)
    module.ProcessGroupGloo(module.PrefixStore("again", store), 0, 1, timedelta(seconds=10))
    _expect(module, "TCPStore", "Store")


def _default_group() -> None:
    """Check how the default process group is found."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore
    from torch.distributed import distributed_c10d

    module: Any = distributed_c10d
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    group = module._get_default_group()
    module._get_default_store()
    timeouts = [group._get_backend(device).options._timeout for device in group._device_types]
    # Any backend will do: `collective_timeout` takes the first that has a timeout.
    if not any(isinstance(timeout, timedelta) for timeout in timeouts):
        raise TypeError(f"the time-outs of the backends are {timeouts!r}")


def _data_parallel() -> None:
    """Check the attributes of DistributedDataParallel in use."""
    import torch

    _default_group()
    model: Any = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(2))
    _expect(model, "broadcast_buffers", "modules_buffers", "require_forward_param_sync", "require_backward_grad_sync")
    if model._comm_hooks:
        raise ValueError(f"a new model has hooks: {model._comm_hooks!r}")
    with torch.no_grad():
        model._sync_buffers()


def _gradient_scaler() -> None:
    """Check the attributes of the gradient scaler in use."""
    import torch

    scaler: Any = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    scaler._scale.clamp_(max=4.0)
    if scaler.get_scale() != 4.0:
        raise ValueError("changing _scale does not change the scale")


def _collating() -> None:
    """Check how torch collates records into batches."""
    import torch
    from torch.utils.data._utils import collate

    if collate.default_collate_fn_map.get(torch.Tensor) is not collate.collate_tensor_fn:
        raise ValueError("tensors are collated by another function")


def _loader_iterators() -> None:
    """Check the iterators of the data loader in use."""
    from torch.utils.data import DataLoader, IterableDataset, dataloader

    class Numbers(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter([1])

    iterator: Any = iter(DataLoader(Numbers(), batch_size=None))
    list(iterator)
    _expect(iterator._dataset_fetcher, "ended")
    _expect(iterator, "_persistent_workers")
    _expect(dataloader._MultiProcessingDataLoaderIter, "_shutdown_workers")


def _storage_identity() -> None:
    """Check how tensors are recognised that share memory."""
    import torch

    storage: Any = torch.ones(2).untyped_storage()
    if not isinstance(storage._cdata, int):
        raise TypeError(f"_cdata is {storage._cdata!r}")


def _forked_cuda() -> None:
    """Check how torch notices that CUDA was initialised before a fork."""
    import torch

    if torch.cuda._is_in_bad_fork():
        raise ValueError("torch reports a bad fork in a process that was not forked")


def _compile_times() -> None:
    """Check how the time of compilations is read."""
    from torch._dynamo import utils

    _expect(utils, "dump_compile_times")


def _state_dict_metadata() -> None:
    """Check the metadata of state dicts."""
    import torch

    _expect(torch.nn.Linear(1, 1).state_dict(), "_metadata")


def _expect(owner: Any, *names: str) -> None:
    """Raise AttributeError if an object lacks one of the names."""
    for name in names:
        if not hasattr(owner, name):
            raise AttributeError(f"{owner!r} has no {name}")


INTERFACES = (
    Interface(
        ("torch._C._distributed_c10d", "_Options", "_timeout", "_devices", "_threads"),
        "ranks exchange objects over gloo on the loopback device",
        _gloo,
    ),
    Interface(
        ("_get_default_group", "_get_default_store", "_device_types", "_get_backend"),
        "groups of ours take the store and the time-out of the default process group",
        _default_group,
    ),
    Interface(
        ("_sync_buffers", "_comm_hooks", "modules_buffers", "require_forward_param_sync", "require_backward_grad_sync"),
        "buffers are equal on all ranks before a validation, and gradients are exchanged once per update",
        _data_parallel,
    ),
    Interface(("_scale",), "the bounds of configure_apex_amp for the loss scale", _gradient_scaler),
    Interface(("torch.utils.data._utils",), "records are collated without a worker", _collating),
    Interface(
        ("_shutdown_workers", "_persistent_workers", "_dataset_fetcher"),
        "workers end with their process, and the end of a data set is noticed",
        _loader_iterators,
    ),
    Interface(("_cdata",), "tensors that share memory share it in a snapshot as well", _storage_identity),
    Interface(("torch.cuda._is_in_bad_fork",), "trials are copies of a process that has not used CUDA", _forked_cuda),
    Interface(("torch._dynamo",), "such copies end without the report of torch.compile", _compile_times),
    Interface(("_metadata",), "checkpoints of earlier releases are converted", _state_dict_metadata),
)
