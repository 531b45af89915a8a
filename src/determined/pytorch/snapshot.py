"""A state that will still be the same in a forked child when this process has gone on with training.

Most of it can stay where it is: the child has its own view of the host's memory. That does not hold for memory that
processes share and for tensors of an accelerator: those are copied, each storage once, so that tensors which share one
go on sharing it.
"""

from __future__ import annotations

import bisect
from typing import Any

import torch

from determined.pytorch.state_codec import map_tensors


def snapshot(state: dict[str, Any]) -> dict[str, Any]:
    """An encoded state for a child that is forked next."""
    shared = _SharedMemory()
    copies: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:
            return tensor
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return tensor.detach().resolve_conj().resolve_neg().cpu().clone()
        storage = tensor.untyped_storage()
        if tensor.is_cpu and not shared.covers(storage.data_ptr()):
            return tensor
        if storage._cdata not in copies:
            copies[storage._cdata] = _copied(storage)
        copy = torch.empty(0, dtype=tensor.dtype)
        return copy.set_(copies[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())

    return dict(map_tensors(state, keep))


def _copied(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    copy = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
    return copy.copy_(storage)


class _SharedMemory:
    """The address ranges of this process that a forked child would share instead of having as they were."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._begins: list[int] = []
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, flags = line.split(maxsplit=2)[:2]
                if flags[3] == "s":
                    begin, _, end = span.partition("-")
                    self._begins.append(int(begin, 16))
                    self._ends.append(int(end, 16))

    def covers(self, address: int) -> bool:
        number = bisect.bisect_right(self._begins, address) - 1
        return number >= 0 and address < self._ends[number]
