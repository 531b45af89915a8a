"""Samplers that repeat, shard, skip and shuffle; wherever positions are known, by arithmetic instead of walking.

The order to compose them in: shuffle, then repeat (training only), then shard, then batch, then skip (training
only, last). An infinite sampler cannot be shuffled.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, Sampler, SequentialSampler

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

ENDLESS = -1

Order = np.ndarray[Any, Any]

Access = tuple[Callable[[int], Any], int]
"""Items by number, and how many there are (ENDLESS for a repeating sampler)."""


class ShuffleSampler(Sampler[int]):
    """A permutation of a data set per pass, decided by (seed, pass): any pass can be had without the others.

    All ranks with one seed share the order by construction, and a resumed run needs nothing but the number of
    batches done. While no seed is set, each iteration draws one from torch's global generator, as torch's own
    random sampler does.
    """

    def __init__(self, data_source: Sized, seed: int | None = None) -> None:
        self.data_source = data_source
        self.seed = seed
        self._cached: tuple[int, int, Order] | None = None

    def __iter__(self) -> Iterator[int]:
        seed = self.seed if self.seed is not None else draw_seed()
        yield from self.permutation(seed, 0).tolist()

    def __len__(self) -> int:
        return len(self.data_source)

    def permutation(self, seed: int, pass_number: int) -> Order:
        if self._cached is None or self._cached[:2] != (seed, pass_number):
            generator = torch.Generator()
            generator.manual_seed(mix(seed, pass_number))
            order = torch.randperm(len(self.data_source), generator=generator).numpy()  # quicker to slice
            self._cached = (seed, pass_number, order)
        return self._cached[2]


def draw_seed(generator: torch.Generator | None = None) -> int:
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def mix(seed: int, number: int) -> int:
    """One well-spread 63-bit number out of two (the finaliser of splitmix64)."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0x7FFFFFFFFFFFFFFF


def batches_in_closed_form(batch_sampler: Any) -> Callable[[int, int, int], list[int]] | None:
    """For batches whose records are known in closed form: those of pass p from one record up to another."""
    if type(batch_sampler) is not BatchSampler:
        return None
    sampler: Any = batch_sampler.sampler
    if type(sampler) is SequentialSampler:
        records = len(sampler)
        return lambda _, first, end: list(range(first, min(end, records)))
    if type(sampler) is ShuffleSampler:
        seed = sampler.seed if sampler.seed is not None else draw_seed()
        return lambda p, first, end: sampler.permutation(seed, p)[first:end].tolist()
    return None


def pass_access(sampler: Any) -> tuple[Callable[[int, int], Any], int] | None:
    """For a sampler whose passes are known in closed form: item i of pass p, and the items of a pass."""
    if type(sampler) is SequentialSampler:
        return (lambda _, i: i), len(sampler)
    if type(sampler) is ShuffleSampler:
        seed = sampler.seed if sampler.seed is not None else draw_seed()
        return (lambda p, i: int(sampler.permutation(seed, p)[i])), len(sampler)
    cut = batches_in_closed_form(sampler)
    if cut is not None:
        size, length = sampler.batch_size, len(sampler)
        return (lambda p, i: cut(p, i * size, i * size + size)), length
    return None


def access(sampler: Any) -> Access | None:
    """Items of a stack of samplers by number, where every layer of it is known in closed form."""
    if isinstance(sampler, _Layer):
        return sampler._access()
    one_pass = pass_access(sampler)
    if one_pass is None:
        return None
    at, length = one_pass
    return (lambda i: at(0, i)), length


class _Layer(Sampler[Any], ABC):
    """A sampler on top of another one: by number where that can be, else by walking."""

    def __init__(self, inner: Iterable[Any]) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[Any]:
        # A generator, which does nothing until the first item is wanted: torch makes iterators that it never uses.
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
        """Items by number, or None where only walking finds them."""

    @abstractmethod
    def _walk(self) -> Iterator[Any]:
        """The items one after the other."""


class _Repeat(_Layer):
    def _access(self) -> Access | None:
        one_pass = pass_access(self._inner)
        if one_pass is None:
            return None
        at, length = one_pass
        if length == 0:
            return None
        return (lambda i: at(*divmod(i, length))), ENDLESS

    def _walk(self) -> Iterator[Any]:
        while True:
            empty = True
            for item in self._inner:
                empty = False
                yield item
            if empty:
                raise ValueError("a sampler without items cannot be repeated: is the data set empty?")


class _Shard(_Layer):
    def __init__(self, inner: Iterable[Any], count: int, rank: int) -> None:
        super().__init__(inner)
        self.num_workers = count
        self.rank = rank

    def _access(self) -> Access | None:
        inner = access(self._inner)
        if inner is None:
            return None
        (at, total), rank, count = inner, self.rank, self.num_workers
        if not 0 <= rank < count:
            return at, 0  # nobody's rank: no item has this remainder
        mine = total if total == ENDLESS else len(range(rank, total, count))
        return (lambda i: at(rank + i * count)), mine

    def _walk(self) -> Iterator[Any]:
        for number, item in enumerate(self._inner):
            if number % self.num_workers == self.rank:
                yield item

    def __len__(self) -> int:
        full, rest = divmod(super().__len__(), self.num_workers)
        return full + (1 if rest > self.rank else 0)


class _Skip(_Layer):
    def __init__(self, inner: Iterable[Any], skip: int) -> None:
        super().__init__(inner)
        self.skip = skip

    def _access(self) -> Access | None:
        inner = access(self._inner)
        if inner is None:
            return None
        (at, total), skip = inner, max(0, self.skip)
        return (lambda i: at(i + skip)), total if total == ENDLESS else max(0, total - skip)

    def _walk(self) -> Iterator[Any]:
        return itertools.islice(iter(self._inner), max(0, self.skip), None)


class _Shuffle(_Layer):
    """A new permutation of the materialised items per pass, by one numpy generator: bit for bit that of 0.16.5+."""

    def __init__(self, inner: Iterable[Any], seed: int) -> None:
        super().__init__(inner)
        self._seed = seed
        self._generator: Any = None

    def _walk(self) -> Iterator[Any]:
        if self._generator is None:
            self._generator = np.random.RandomState(self._seed)
        items = list(self._inner)
        self._generator.shuffle(items)
        return iter(items)

    def _access(self) -> Access | None:
        return None


class RepeatSampler(_Repeat):
    """The inner sampler over and over: each pass iterates it anew."""

    def __init__(self, sampler: Iterable[int]) -> None:
        super().__init__(sampler)
        self.sampler = sampler


class RepeatBatchSampler(_Repeat):
    """The inner batch sampler over and over: each pass iterates it anew."""

    def __init__(self, batch_sampler: Iterable[list[int]]) -> None:
        super().__init__(batch_sampler)
        self.batch_sampler = batch_sampler


class DistributedSampler(_Shard):
    """Every item i with `i % num_workers == rank`."""

    def __init__(self, sampler: Iterable[int], num_workers: int, rank: int) -> None:
        super().__init__(sampler, num_workers, rank)
        self.sampler = sampler


class DistributedBatchSampler(_Shard):
    """Every batch i with `i % num_workers == rank`. (0.12 called the second argument `num_replicas`.)"""

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
    """All but the first `skip` items, each time it is iterated; its length stays that of the inner sampler."""

    def __init__(self, sampler: Iterable[int], skip: int) -> None:
        super().__init__(sampler, skip)
        self.sampler = sampler


class SkipBatchSampler(_Skip):
    """All but the first `skip` batches, each time it is iterated.

    Its length stays that of the inner sampler. (Up to 0.16.4 it shrank unless `same_length` was true.)
    """

    def __init__(self, batch_sampler: Iterable[list[int]], skip: int, same_length: bool | None = None) -> None:
        super().__init__(batch_sampler, skip)
        self.batch_sampler = batch_sampler
        self._shrink = same_length is False

    @property
    def length(self) -> int:
        """The length of the sampler inside, skipped batches included."""
        return len(self)

    def __len__(self) -> int:
        whole = super().__len__()
        return max(0, whole - self.skip) if self._shrink else whole


class ReproducibleShuffleSampler(_Shuffle):
    """A shuffle of the inner sampler by a seed; each pass goes on with the same generator."""

    def __init__(self, sampler: Iterable[int], seed: int) -> None:
        super().__init__(sampler, seed)
        self.sampler = sampler


class ReproducibleShuffleBatchSampler(_Shuffle):
    """A shuffle of whole batches by a seed; each pass goes on with the same generator."""

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
    """Repeat inside shard inside skip: the batches of all passes are dealt out round-robin over the ranks.

    Skipping counts batches of this rank.
    """
    if repeat:
        batch_sampler = RepeatBatchSampler(batch_sampler)
    if num_replicas > 1:
        batch_sampler = DistributedBatchSampler(batch_sampler, num_replicas, rank)
    if skip > 0:
        batch_sampler = SkipBatchSampler(batch_sampler, skip)
    return batch_sampler
