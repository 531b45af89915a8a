"""Shard the batches of a training run over ranks: round-robin, pass after pass, starting at a given position."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import BatchSampler, Sampler

from determined.pytorch.data.closed_form import batches_in_closed_form
from determined.pytorch.data.position import DataPosition, PassShape
from determined.pytorch.data.replayed_samplers import ReplayedBatches


def pass_shape(batch_sampler: Any) -> PassShape | None:
    """Return the number of records and the batch size of one pass, or None if the sampler has no length."""
    try:
        # The exact class: a subclass may return other batches than its attributes describe.
        if type(batch_sampler) is BatchSampler:
            records = len(batch_sampler.sampler)  # type: ignore[arg-type]
            return PassShape(records, batch_sampler.batch_size, batch_sampler.drop_last)
        return PassShape(len(batch_sampler), 1)
    # Samplers over streams have no length; `__len__` of torch's base classes raises one of these.
    except (TypeError, NotImplementedError):
        return None


def batch_size(batch_sampler: Any) -> int:
    """Return how many records one batch takes from a pass; a batch of a user-defined batch sampler counts as one."""
    return batch_sampler.batch_size if type(batch_sampler) is BatchSampler else 1


class ShardedBatches(Sampler[Any]):
    """A sampler of one rank's index lists, starting at a position and continuing without end.

    Batches of all ranks are numbered together; this rank has the numbers first, first + ranks, first + 2 * ranks, ...

    Index lists are computed directly if the order is known in closed form. Otherwise the user's sampler is iterated
    and `replayed` holds the state to save, see `ReplayedBatches`.
    """

    def __init__(
        self, batch_sampler: Iterable[Any], position: DataPosition, ranks: int, rank: int, read_ahead: int
    ) -> None:
        self._batch_sampler = batch_sampler
        self._position = position
        self.first = position.batches + rank
        self.ranks = ranks
        self._rank = rank
        self.replayed: ReplayedBatches | None = None
        # Asked once here: the answer decides whether checkpoints store a state of the sampler.
        if batches_in_closed_form(batch_sampler) is None:
            self.replayed = ReplayedBatches(batch_sampler, position, ranks, rank, read_ahead)

    def __iter__(self) -> Iterator[Any]:
        # A generator, so that nothing runs before the first batch is requested: torch creates iterators it never uses.
        if self.replayed is not None:
            yield from self.replayed
            return
        cut = batches_in_closed_form(self._batch_sampler)
        shape = pass_shape(self._batch_sampler)
        assert cut is not None
        assert shape is not None
        passes, record = self._position.place(shape.records, shape.drop_last)
        size, whole = shape.batch_size, shape.batches()
        if whole == 0:
            # Without this check the division below would fail, or the iterator would never yield.
            raise ValueError("a sampler without items cannot be repeated: is the data set empty?")
        # First the rest of the pass in progress. It may have begun with another batch size, so that its batches do not
        # begin at multiples of this one.
        left = shape.batches(record)
        yield from (
            cut(passes, first, first + size)
            for first in range(record + self._rank * size, record + left * size, self.ranks * size)
        )

        def batch(number: int) -> Any:
            """Return the batch with this number after the pass in progress, counted over all ranks."""
            further, within = divmod(number, whole)
            return cut(passes + 1 + further, within * size, within * size + size)

        # Batches are distributed across the end of a pass: each rank keeps its distance of `ranks` batches.
        taken = len(range(self._rank, left, self.ranks))
        yield from map(batch, itertools.count(self._rank + taken * self.ranks - left, self.ranks))

    def __len__(self) -> int:
        """Return the number of this rank's batches in one pass, independent of the position."""
        return len(range(self._rank, len(self._batch_sampler), self.ranks))  # type: ignore[arg-type]
