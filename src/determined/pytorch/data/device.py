"""Choose the device of a rank, and move batches to it."""

from __future__ import annotations

import collections.abc
import copy
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from determined.pytorch.context import PyTorchTrialContext

logger = logging.getLogger("determined.pytorch")

_QUIET_LEAVES = (str, bytes, int, float, complex, bool, type(None))  # values that never need to be moved: no warning
_TENSOR_KINDS = "fciub"  # the kinds of numpy dtypes that torch can represent


def choose_device(rank_count: int, local_rank: int) -> torch.device:
    """Return the accelerator of this rank, or the CPU if none is visible.

    Variables that hide devices (such as CUDA_VISIBLE_DEVICES) are respected. A process without other ranks uses device
    0, several ranks use the device of their local rank.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return torch.device("cpu")
    # There is only one, and it has no index.
    if accelerator.type == "mps":
        return torch.device("mps")
    # Modulo, because ranks without a GPU of their own share them (over gloo, see `ranks/process_group.py`).
    index = local_rank % torch.accelerator.device_count() if rank_count > 1 else 0
    # Kernels and NCCL use the current device, and every rank would otherwise allocate on device 0.
    torch.accelerator.set_device_index(index)
    return torch.device(accelerator.type, index)


def batch_mover(context: PyTorchTrialContext) -> Callable[[Any], Any] | None:
    """Return the function that the loop applies to each batch, or None if the trial disabled moving batches.

    The function has a short path for batches that are already on the device.
    """
    # The loop then has no call per batch at all.
    if not context.experimental._auto_to_device:
        return None
    device, warned_types = context.device, context._warned_types

    def move(data: Any) -> Any:
        return _move(data, device, warned_types)

    def move_to_host(data: Any) -> Any:
        """Return a batch of plain tensors as it is, and move anything else."""
        kind = type(data)
        if kind is list or kind is tuple:
            for item in data:
                if type(item) is not torch.Tensor:
                    return _move(data, device, warned_types)
            return data if kind is tuple else data[:]  # a new list: the program may change it, not the loader's
        return _move(data, device, warned_types)

    # Without an accelerator all tensors are in host memory, so a batch of plain tensors needs no check of devices.
    return move if torch.accelerator.is_available() else move_to_host


def to_device(data: Any, device: torch.device, warned_types: set[type] | bool | None = None) -> Any:
    """Move every tensor and array in `data` to `device`, keeping the structure around them.

    Dicts, lists, tuples and named tuples are rebuilt with their type; numpy arrays become tensors; for any other object
    with a method `to`, `data.to(device)` is returned. Values that cannot be moved are returned unchanged, with one
    warning per type: pass the same set as `warned_types` to share that over several calls. (Release 0.12 passed a bool:
    whether to warn at all.)
    """
    if isinstance(data, torch.Tensor):
        return _move_tensor(data, device)
    if isinstance(warned_types, bool):
        # A set that claims to hold every type silences all warnings.
        warned_types = set() if warned_types else _AllTypes()
    elif warned_types is None:
        warned_types = set()
    return _move(data, device, warned_types)


class _AllTypes(set[type]):
    """A set that claims to contain every type, which silences the warnings about types."""

    def __contains__(self, item: object) -> bool:
        return True


def _move(data: Any, device: torch.device, warned: set[type]) -> Any:
    """Move a batch; the common types are tested first and exactly, because this runs for every batch."""
    kind = type(data)
    if kind is torch.Tensor:
        return _move_tensor(data, device)
    if kind is list:
        return [_move(item, device, warned) for item in data]
    if kind is tuple:
        return tuple([_move(item, device, warned) for item in data])
    if kind is dict:
        return {key: _move(item, device, warned) for key, item in data.items()}
    return _move_uncommon(data, device, warned)


def _move_tensor(data: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on the device; a tensor that is there already is returned itself."""
    if data.is_cpu:
        if device.type == "cpu":
            return data
        # A copy can overlap with work of the host only if its source is pinned.
        return data.to(device, non_blocking=device.type == "cuda" and data.is_pinned())
    return data.to(device)


def _move_uncommon(data: Any, device: torch.device, warned: set[type]) -> Any:
    """Move data of less common types, or return it unchanged with a warning."""
    if isinstance(data, torch.Tensor):
        return _move_tensor(data, device)
    if isinstance(data, np.ndarray):
        if data.dtype.kind in _TENSOR_KINDS:
            return _move_tensor(array_to_tensor(data), device)
    # Objects of other libraries, such as a BatchEncoding, move themselves, and may be mappings too.
    elif callable(getattr(data, "to", None)):
        return data.to(device)
    elif isinstance(data, collections.abc.Mapping):
        return _move_mapping(data, device, warned)
    elif isinstance(data, tuple):
        moved = [_move(item, device, warned) for item in data]
        make = getattr(data, "_make", tuple)  # named tuples keep their class
        return make(moved)
    elif isinstance(data, list):
        return [_move(item, device, warned) for item in data]
    elif isinstance(data, _QUIET_LEAVES):
        return data
    if type(data) not in warned:
        warned.add(type(data))
        logger.warning(
            "data of type %s cannot be moved to a device and stays as it is; give the type a method `to(device)`, "
            "or convert it to a tensor",
            _describe(data),
        )
    return data


def _move_mapping(data: Any, device: torch.device, warned: set[type]) -> Any:
    """Return a mapping of the same type with its values moved, or a dict if that type cannot be created."""
    moved = {key: _move(item, device, warned) for key, item in data.items()}
    if isinstance(data, dict) or hasattr(data, "__copy__"):
        # A shallow copy keeps attributes that the constructor would need as arguments, such as a default factory.
        same_type = copy.copy(data)
        for key, item in moved.items():
            same_type[key] = item
        return same_type
    try:
        return type(data)(moved)
    # A mapping class whose constructor takes other arguments.
    except TypeError:
        return moved


def _describe(data: Any) -> str:
    """Return the name of a type for the warning, for an array with its dtype."""
    return f"{type(data).__name__}[{data.dtype}]" if isinstance(data, np.ndarray) else type(data).__name__


def array_to_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor with the numbers of the array; memory is shared if torch supports its layout and type."""
    # torch has no extended precision (float128, complex256); such numbers lose digits, as they would in any model.
    if array.dtype.kind in "fc" and array.dtype.itemsize > (8 if array.dtype.kind == "f" else 16):
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.complex128)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # torch.from_numpy rejects these strides, and warns about read-only memory because tensors can be written.
    if not array.flags.writeable or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def data_length(data: Any) -> int:
    """Return the number of records in a batch: the length of the first tensor or array in it.

    Raises TypeError if the batch contains no tensor or array, and ValueError for an empty container.
    """
    leaf = None
    for leaf in _leaves(data):
        # Its length is that of its longest sequence; the first step contains every sequence once.
        if isinstance(leaf, torch.nn.utils.rnn.PackedSequence):
            return int(leaf.batch_sizes[0])
        if isinstance(leaf, (torch.Tensor, np.ndarray)):
            return len(leaf)
    if leaf is None and data is not None:
        raise ValueError("the number of records of an empty container is not known")
    raise TypeError(
        f"the number of records in data of type {type(data).__name__}, with no tensor or array in it, is not known; "
        "override PyTorchTrial.get_batch_length(batch)"
    )


def _leaves(data: Any) -> Iterator[Any]:
    """Yield the values in nested containers, in order."""
    if isinstance(data, collections.abc.Mapping):
        # The values in their order, as data_length() takes the first one.
        data = list(data.values())
    if isinstance(data, (list, tuple)) and not isinstance(data, torch.nn.utils.rnn.PackedSequence):
        for item in data:
            yield from _leaves(item)
    else:
        yield data
