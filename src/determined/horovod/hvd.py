"""Horovod's functions for PyTorch, implemented with torch's default process group.

Ranks come from that group, else from the launcher's environment variables, else this process is the only one. With
several ranks, every rank must make the same calls in the same order. Gradients are averaged by the models that
`context.wrap_model` returns, so there is no `DistributedOptimizer`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import torch

Average = "Average"
Sum = "Sum"
Min = "Min"
Max = "Max"
Product = "Product"

_OPERATIONS = {Average: "SUM", Sum: "SUM", Min: "MIN", Max: "MAX", Product: "PRODUCT"}


# Closes the process group that `init` created. A group that other code created is never closed here.
_joined = ExitStack()


def init(*args: Any, **kwargs: Any) -> None:
    """Join the process group of the ranks that a launcher started, unless `pytorch.init` has done so."""
    if not is_initialized():
        from determined.pytorch.ranks.process_group import joined

        _joined.enter_context(joined(None))


def shutdown() -> None:
    """Leave the process group that `init` joined."""
    _joined.close()


def is_initialized() -> bool:
    """Return whether collective operations can be used."""
    return size() == 1 or _group_exists()


def require_horovod_type(horovod_type: str, reason: str = "") -> None:
    """Raise `ValueError` for a framework other than PyTorch."""
    if horovod_type not in ("torch", "pytorch"):
        raise ValueError(f"only PyTorch is supported, so horovod for {horovod_type!r} cannot be used: {reason}")


def rank() -> int:
    """Return the rank of this process among all processes."""
    return _number("RANK", 0, lambda dist: dist.get_rank())


def size() -> int:
    """Return the number of processes."""
    return _number("WORLD_SIZE", 1, lambda dist: dist.get_world_size())


def local_rank() -> int:
    """Return the rank of this process among those on its machine."""
    # Launchers other than torchrun set only RANK; then there is one machine.
    return int(os.environ.get("LOCAL_RANK", rank()))


def local_size() -> int:
    """Return the number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", size()))


def cross_rank() -> int:
    """Return the rank of this machine."""
    return int(os.environ.get("GROUP_RANK", 0))


def cross_size() -> int:
    """Return the number of machines."""
    return int(os.environ.get("GROUP_WORLD_SIZE", 1))


def allreduce(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *args: Any, op: str | None = None
) -> torch.Tensor:
    """Return a tensor reduced over all ranks: averaged, or with the operation `op`."""
    # A copy, because the caller keeps its tensor.
    return allreduce_(tensor.clone(), average, name, op=op)


def allreduce_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *args: Any, op: str | None = None
) -> torch.Tensor:
    """Reduce a tensor over all ranks in place; see `allreduce`."""
    chosen = _operation(average, op)
    if size() > 1:
        dist = _collectives()
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, _OPERATIONS[chosen]))
        if chosen == Average:
            if tensor.is_floating_point() or tensor.is_complex():
                tensor /= size()
            else:
                # Dividing integers in place by `/=` is an error in torch.
                tensor //= size()
    return tensor


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """Return the tensors of all ranks, concatenated along the first dimension, which may differ between ranks."""
    if size() == 1:
        return tensor.clone()
    import torch

    dist = _collectives()
    # Collectives need contiguous memory.
    own = tensor.contiguous()
    lengths = allgather_object(len(own))
    # Collectives need equal shapes, so each rank pads its tensor to the longest one, and the padding is cut off.
    padded = own.new_zeros((max(lengths), *own.shape[1:]))
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Return the tensor of the root rank on every rank."""
    return broadcast_(tensor.clone(), root_rank, name)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Replace a tensor by that of the root rank, in place."""
    if size() > 1:
        _collectives().broadcast(tensor, src=root_rank)
    return tensor


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the object of the root rank on every rank."""
    if size() == 1:
        return obj
    box = [obj]
    _collectives().broadcast_object_list(box, src=root_rank)
    return box[0]


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the objects of all ranks, ordered by rank."""
    if size() == 1:
        return [obj]
    gathered: list[Any] = [None] * size()
    _collectives().all_gather_object(gathered, obj)
    return gathered


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]], root_rank: int
) -> None:
    """Replace parameters by those of the root rank; a state dict or named parameters."""
    pairs = params.items() if isinstance(params, Mapping) else params
    for _, tensor in pairs:
        # In place on the data: the operation must not become part of the graph of a parameter.
        broadcast_(tensor.data if hasattr(tensor, "data") else tensor, root_rank)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Replace the state of an optimizer by that of the root rank."""
    if size() > 1:
        # As one object, because ranks that made no step have no tensors of state to receive into.
        optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))


def barrier() -> None:
    """Wait until all ranks have called this function."""
    if size() > 1:
        _collectives().barrier()


def _operation(average: bool | None, op: str | None) -> str:
    """Return the reduction that the arguments of Horovod's functions mean."""
    if average is not None and op is not None:
        raise ValueError("give either average or op, not both")
    if average is not None:
        return Average if average else Sum
    chosen = op or Average
    if chosen not in _OPERATIONS:
        raise ValueError(f"op must be one of {', '.join(_OPERATIONS)}, got {op!r}")
    return chosen


def _number(variable: str, alone: int, ask: Any) -> int:
    """Return a rank or size from the process group, or else from an environment variable."""
    if _group_exists():
        import torch.distributed as dist

        return int(ask(dist))
    return int(os.environ.get(variable, alone))


def _group_exists() -> bool:
    """Return whether torch's default process group is initialized."""
    # Imported on use: only `pytorch/` imports torch when it is imported itself.
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized()


def _collectives() -> Any:
    """Return `torch.distributed`. Raise `RuntimeError` if the process group is not initialized."""
    import torch.distributed as dist

    if not dist.is_initialized():
        raise RuntimeError(
            f"this is rank {rank()} of {size()}, and the process group is not initialized: call hvd.init() first"
        )
    return dist


def __getattr__(name: str) -> NoReturn:
    reason = (
        ": the models that context.wrap_model returns average gradients themselves, keep torch's own optimizer"
        if name == "DistributedOptimizer"
        else ": there is no Horovod, and this function has no counterpart in torch.distributed"
    )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")
