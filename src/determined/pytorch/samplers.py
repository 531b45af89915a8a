"""Samplers that repeat, shard, skip and shuffle.

Where the order is known in closed form, items are computed by index instead of iterating over the ones before.

Compose them in this order: shuffle, repeat (training only), shard, batch, skip (training only). An infinite sampler
cannot be shuffled.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from determined.pytorch.data.closed_form import pass_access

__all__ = [
    "RepeatSampler",
    "RepeatBatchSampler",
    "DistributedSampler",
    "DistributedBatchSampler",
    "SkipSampler",
    "SkipBatchSampler",
    "ReproducibleShuffleSampler",
    "ReproducibleShuffleBatchSampler",
    "adapt_batch_sampler",
]

# No length is negative, so that -1 cannot be mistaken for one.
ENDLESS = -1

Access = tuple[Callable[[int], Any], int]
"""A function that returns an item by its index, and the number of items (ENDLESS for a repeating sampler)."""


def access(sampler: Any) -> Access | None:
    """Return access by index to a stack of samplers, or None unless every layer is known in closed form."""
    if isinstance(sampler, _Layer):
        # Not isinstance of a public class: only the layers of this module know how to compute items by index.
        return sampler._access()
    one_pass = pass_access(sampler)
    if one_pass is None:
        return None
    at, length = one_pass
    return (lambda i: at(0, i)), length


class _Layer(Sampler[Any], ABC):
    """A sampler on top of another one, which computes items by index if possible, and else iterates over it."""

    def __init__(self, inner: Iterable[Any]) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[Any]:
        # A generator, so that nothing runs before the first item is requested: torch creates iterators it never uses.
        # A shuffle without a seed draws a new one here, once for each iteration.
        by_number = self._access()
        if by_number is None:
            yield from self._walk()
        else:
            at, total = by_number
            yield from map(at, itertools.count() if total == ENDLESS else range(total))

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    @abstractmethod
    def _access(self) -> Access | None:
        """Return access to the items by index, or None if only iterating finds them."""

    @abstractmethod
    def _walk(self) -> Iterator[Any]:
        """Yield the items by iterating over the inner sampler."""


class _Repeat(_Layer):
    """Repeats the inner sampler without end."""

    def _access(self) -> Access | None:
        """Return access across passes, or None for a sampler of unknown order or without items."""
        one_pass = pass_access(self._inner)
        if one_pass is None:
            return None
        at, length = one_pass
        if length == 0:
            return None  # iterating raises the error about a sampler without items
        return (lambda i: at(*divmod(i, length))), ENDLESS

    def _walk(self) -> Iterator[Any]:
        """Yield the items pass after pass; raise ValueError if a pass has none."""
        while True:
            empty = True
            for item in self._inner:
                empty = False
                yield item
            if empty:
                raise ValueError("a sampler without items cannot be repeated: is the data set empty?")


class _Shard(_Layer):
    """Selects every `count`-th item, starting at `rank`."""

    def __init__(self, inner: Iterable[Any], count: int, rank: int) -> None:
        super().__init__(inner)
        self.num_workers = count
        self.rank = rank

    def _access(self) -> Access | None:
        """Return access to every `count`-th item of the inner sampler."""
        inner = access(self._inner)
        if inner is None:
            return None
        (at, total), rank, count = inner, self.rank, self.num_workers
        if not 0 <= rank < count:
            return at, 0  # an invalid rank gets no item, as when iterating
        mine = total if total == ENDLESS else len(range(rank, total, count))
        return (lambda i: at(rank + i * count)), mine

    def _walk(self) -> Iterator[Any]:
        """Yield this rank's items by iterating over those of all ranks."""
        for number, item in enumerate(self._inner):
            if number % self.num_workers == self.rank:
                yield item

    def __len__(self) -> int:
        full, rest = divmod(super().__len__(), self.num_workers)
        return full + (1 if rest > self.rank else 0)


class _Skip(_Layer):
    """Leaves out the first `skip` items."""

    def __init__(self, inner: Iterable[Any], skip: int) -> None:
        super().__init__(inner)
        self.skip = skip

    def _access(self) -> Access | None:
        """Return access to the items after the skipped ones."""
        inner = access(self._inner)
        if inner is None:
            return None
        (at, total), skip = inner, max(0, self.skip)
        return (lambda i: at(i + skip)), total if total == ENDLESS else max(0, total - skip)

    def _walk(self) -> Iterator[Any]:
        """Return the items after the skipped ones; these are requested and discarded."""
        return itertools.islice(iter(self._inner), max(0, self.skip), None)


class _Shuffle(_Layer):
    """Shuffles the list of all items in each pass with one numpy generator: the same orders as since 0.16.5."""

    def __init__(self, inner: Iterable[Any], seed: int) -> None:
        super().__init__(inner)
        self._seed = seed
        self._generator: Any = None

    def _walk(self) -> Iterator[Any]:
        """Return all items of a pass in a new order; the generator continues from pass to pass."""
        if self._generator is None:
            # RandomState, because numpy never changes its streams: orders are those of all releases since 0.16.5.
            self._generator = np.random.RandomState(self._seed)
        items = list(self._inner)
        self._generator.shuffle(items)
        return iter(items)

    def _access(self) -> Access | None:
        """Return None, for no access by index: the order of a pass depends on all passes before it."""
        return None


class RepeatSampler(_Repeat):
    """Repeats a sampler without end; each pass iterates it again."""

    def __init__(self, sampler: Iterable[int]) -> None:
        super().__init__(sampler)
        self.sampler = sampler


class RepeatBatchSampler(_Repeat):
    """Repeats a batch sampler without end; each pass iterates it again."""

    def __init__(self, batch_sampler: Iterable[list[int]]) -> None:
        super().__init__(batch_sampler)
        self.batch_sampler = batch_sampler


class DistributedSampler(_Shard):
    """Selects every item i with `i % num_workers == rank`."""

    def __init__(self, sampler: Iterable[int], num_workers: int, rank: int) -> None:
        super().__init__(sampler, num_workers, rank)
        self.sampler = sampler


class DistributedBatchSampler(_Shard):
    """Selects every batch i with `i % num_workers == rank`.

    Release 0.12 called the second argument `num_replicas`. Raises ValueError if the number of ranks or the rank is
    invalid.
    """

    def __init__(
        self,
        batch_sampler: Iterable[list[int]],
        num_workers: int | None = None,
        rank: int = 0,
        *,
        num_replicas: int | None = None,
    ) -> None:
        count = num_workers if num_workers is not None else num_replicas
        if count is None or count < 1:
            raise ValueError(f"num_workers is the number of ranks, 1 or more, got {count!r}")
        if not 0 <= rank < count:
            raise ValueError(f"rank is a number from 0 to num_workers - 1 ({count - 1}), got {rank!r}")
        super().__init__(batch_sampler, count, rank)
        self.batch_sampler = batch_sampler


class SkipSampler(_Skip):
    """Leaves out the first `skip` items in each iteration; the length remains that of the inner sampler."""

    def __init__(self, sampler: Iterable[int], skip: int) -> None:
        super().__init__(sampler, skip)
        self.sampler = sampler


class SkipBatchSampler(_Skip):
    """Leaves out the first `skip` batches in each iteration.

    The length remains that of the inner sampler, unless `same_length` is False, which was the default up to 0.16.4.
    """

    def __init__(self, batch_sampler: Iterable[list[int]], skip: int, same_length: bool | None = None) -> None:
        super().__init__(batch_sampler, skip)
        self.batch_sampler = batch_sampler
        # None means not given, which is the current default, like True.
        self._shrink = same_length is False

    @property
    def length(self) -> int:
        """The length of the sampler."""
        return len(self)

    def __len__(self) -> int:
        whole = super().__len__()
        return max(0, whole - self.skip) if self._shrink else whole


class ReproducibleShuffleSampler(_Shuffle):
    """Shuffles the inner sampler by a seed; each pass continues with the same generator."""

    def __init__(self, sampler: Iterable[int], seed: int) -> None:
        super().__init__(sampler, seed)
        self.sampler = sampler


class ReproducibleShuffleBatchSampler(_Shuffle):
    """Shuffles the order of batches by a seed; each pass continues with the same generator."""

    def __init__(self, batch_sampler: Iterable[list[int]], seed: int) -> None:
        super().__init__(batch_sampler, seed)
        self.batch_sampler = batch_sampler


def adapt_batch_sampler(
    batch_sampler: Iterable[list[int]],
    repeat: bool = False,
    skip: int = 0,
    num_replicas: int = 1,
    rank: int = 0,
) -> Any:
    """Return a batch sampler for one rank: repeated if `repeat`, distributed round-robin over ranks, and skipped.

    `skip` counts batches of this rank.
    """
    # In this order: sharding before repeating would give ranks different numbers of batches in each pass.
    if repeat:
        batch_sampler = RepeatBatchSampler(batch_sampler)
    if num_replicas > 1:
        batch_sampler = DistributedBatchSampler(batch_sampler, num_replicas, rank)
    if skip > 0:
        # Last, because `skip` counts batches of this rank.
        batch_sampler = SkipBatchSampler(batch_sampler, skip)
    return batch_sampler
