"""Which batches of a data set each rank processes, from any position on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Sampler

from determined.pytorch.samplers import adapt_batch_sampler

_DEFAULT_BATCH_SIZE = 1


@dataclass(frozen=True)
class Progress:
    """How far all ranks together have come.

    `batches` counts the batches of a rank over all attempts, whatever the number of ranks was: it never goes back and
    numbers the next batch. `records` is the place in the data set: all records before it are done, none after it.
    """

    batches: int = 0
    records: int = 0


class Batches:
    """A data set cut into batches, which are dealt out over the ranks round-robin."""

    def __init__(self, dataset: Any, batch_size: int | None, loader_options: dict[str, Any] | None) -> None:
        """Refuse options that would change which records a rank gets."""
        options = dict(loader_options or {})
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise ValueError(f"torch_batch_process takes a map-style data set, got {type(dataset).__name__}")
        if not hasattr(dataset, "__len__"):
            raise ValueError(f"dataset has no length, which a map-style data set needs: got {type(dataset).__name__}")
        if options.pop("shuffle", None):
            raise ValueError("dataloader_kwargs: shuffle=True is not possible, because progress is a place in the data")
        for name in ("sampler", "batch_sampler", "dataset"):
            if options.pop(name, None) is not None:
                raise ValueError(f"dataloader_kwargs cannot hold {name}: torch_batch_process makes its own")
        if batch_size is not None and "batch_size" in options:
            raise ValueError("batch_size is given twice: as an argument and in dataloader_kwargs")
        # For torch, a batch size of None means records one by one, not collated.
        self._single = "batch_size" in options and options["batch_size"] is None
        given = options.pop("batch_size", batch_size)
        self._size = _DEFAULT_BATCH_SIZE if given is None else given
        if isinstance(self._size, bool) or not isinstance(self._size, int) or self._size < 1:
            raise ValueError(f"batch_size is a whole number from 1 on, got {given!r}")
        self._drop_last = bool(options.pop("drop_last", False))
        self._dataset = dataset
        self._options = options

    def loader(self, start: Progress, ranks: int, rank: int) -> DataLoader[Any]:
        """Return a loader of the batches of one rank after the start."""
        own = adapt_batch_sampler(self._after(start), num_replicas=ranks, rank=rank)
        if self._single:
            return DataLoader(self._dataset, batch_size=None, sampler=_Flat(own), **self._options)
        return DataLoader(self._dataset, batch_sampler=own, **self._options)

    def per_rank(self, start: Progress, ranks: int) -> int:
        """Return how many batches the rank with the most batches has after the start."""
        return -(-len(self._after(start)) // ranks)

    def progress(self, start: Progress, batches: int, ranks: int) -> Progress:
        """Return where all ranks are when each has processed its batches up to a number."""
        return Progress(batches, self.records_after(start.records, batches - start.batches, ranks))

    def records_after(self, records: int, batches: int, ranks: int) -> int:
        """Return the place in the data set when each rank has processed that number of batches from a place on."""
        return min(records + batches * ranks * self._size, len(self._dataset))

    def _after(self, start: Progress) -> BatchSampler:
        return BatchSampler(range(start.records, len(self._dataset)), self._size, self._drop_last)


class _Flat(Sampler[int]):
    """The records of batches, one by one."""

    def __init__(self, batches: Iterable[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[int]:
        for batch in self._batches:
            yield from batch
