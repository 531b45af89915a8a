"""`Batches`: determine which batches of a data set each rank processes, from any position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Sampler

from determined.pytorch.samplers import adapt_batch_sampler

# The default of torch.utils.data.DataLoader.
_DEFAULT_BATCH_SIZE = 1


@dataclass(frozen=True)
class Progress:
    """The progress of all ranks together.

    `batches` counts the batches of each rank over all attempts, independent of the number of ranks. It never decreases
    and is the number of the next batch. `records` is the position in the data set: all records before it are done, none
    after.
    """

    batches: int = 0
    records: int = 0


class Batches:
    """A data set divided into batches, which are distributed round-robin over the ranks."""

    def __init__(self, dataset: Any, batch_size: int | None, loader_options: dict[str, Any] | None) -> None:
        """Store the options; raise ValueError for those that would change which records a rank gets."""
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
        # For torch, a batch size of None means single records that are not collated.
        self._single = "batch_size" in options and options["batch_size"] is None
        given = options.pop("batch_size", batch_size)
        self._size = _DEFAULT_BATCH_SIZE if given is None else given
        if isinstance(self._size, bool) or not isinstance(self._size, int) or self._size < 1:
            raise ValueError(f"batch_size is a whole number from 1 on, got {given!r}")
        self._drop_last = bool(options.pop("drop_last", False))
        self._dataset = dataset
        self._options = options

    def loader(self, start: Progress, ranks: int, rank: int) -> DataLoader[Any]:
        """Return a loader of the batches of one rank after `start`."""
        own = adapt_batch_sampler(self._after(start), num_replicas=ranks, rank=rank)
        if self._single:
            return DataLoader(self._dataset, batch_size=None, sampler=_Flat(own), **self._options)
        return DataLoader(self._dataset, batch_sampler=own, **self._options)

    def per_rank(self, start: Progress, ranks: int) -> int:
        """Return the number of batches after `start` of the rank that has the most."""
        # Rounded up by the double negation.
        return -(-len(self._after(start)) // ranks)

    def progress(self, start: Progress, batches: int, ranks: int) -> Progress:
        """Return the progress when each rank has processed its batches up to number `batches`."""
        return Progress(batches, self.records_after(start.records, batches - start.batches, ranks))

    def records_after(self, records: int, batches: int, ranks: int) -> int:
        """Return the position in the data set after each rank has processed `batches` batches from `records` on."""
        # The last batch may be short.
        return min(records + batches * ranks * self._size, len(self._dataset))

    def _after(self, start: Progress) -> BatchSampler:
        """Return the batches of all ranks after `start`, in the order of the data set."""
        # Not shuffled, so that a number of records describes the progress completely.
        return BatchSampler(range(start.records, len(self._dataset)), self._size, self._drop_last)


class _Flat(Sampler[int]):
    """The record indices of batches, one by one."""

    def __init__(self, batches: Iterable[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[int]:
        for batch in self._batches:
            yield from batch
