"""Protect a state from changes by training while a forked child writes it.

Most of the state can be used as it is: a fork gives the child a copy-on-write view of the process's memory. That does
not hold for memory shared between processes and for tensors on an accelerator. These are copied, each storage once, so
that tensors which share a storage still share it.
"""

from __future__ import annotations

import bisect
from typing import Any

import torch

from determined.pytorch.checkpoint.state_codec import map_tensors


def snapshot(state: dict[str, Any]) -> dict[str, Any]:
    """Return an encoded state that a child forked next can write while this process continues training."""
    shared = _SharedMemory()
    copies: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor itself, or a copy if later changes of it would be visible in the child."""
        if tensor.is_meta:
            return tensor
        # These have no plain storage, or one that holds other numbers than the tensor shows.
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return tensor.detach().resolve_conj().resolve_neg().cpu().clone()
        storage = tensor.untyped_storage()
        if tensor.is_cpu and not shared.covers(storage.data_ptr()):
            return tensor
        # _cdata identifies the memory: torch may create a new storage object at each call.
        if storage._cdata not in copies:
            copies[storage._cdata] = _copied(storage)
        # On the CPU: an accelerator's context cannot be used in a forked child.
        copy = torch.empty(0, dtype=tensor.dtype)
        return copy.set_(copies[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())

    return dict(map_tensors(state, keep))


def _copied(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a copy of a storage in the memory of the host."""
    copy = torch.UntypedStorage(storage.nbytes())
    # A copy on the stream of the device, so it waits for the kernels that still write to this memory.
    return copy.copy_(storage)


class _SharedMemory:
    """The address ranges of this process that are mapped as shared, where a child would see later changes."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._begins: list[int] = []
        # The kernel's list is the only source that knows every mapping, also those of loaders and other libraries.
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, flags = line.split(maxsplit=2)[:2]
                # The fourth letter of the permissions: s is a shared
                # mapping, p a private one, which a fork copies on write.
                if flags[3] == "s":
                    begin, _, end = span.partition("-")
                    self._begins.append(int(begin, 16))
                    self._ends.append(int(end, 16))

    def covers(self, address: int) -> bool:
        """Return whether an address lies in shared memory."""
        # The kernel lists mappings in ascending order, so bisection finds the last one that begins before the address.
        number = bisect.bisect_right(self._begins, address) - 1
        return number >= 0 and address < self._ends[number]
