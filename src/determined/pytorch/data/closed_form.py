"""Orders of data that are known in closed form: any item of any pass is computed without the items before it.

This is what makes resuming and sharding cheap: a run that continues at batch 10,000 computes that batch directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, Sampler, SequentialSampler

Order = np.ndarray[Any, Any]


class ShuffleSampler(Sampler[int]):
    """A sampler with one permutation of the data set per pass, derived from the seed and the pass number.

    Any pass can be computed without the earlier ones. All ranks with the same seed use the same order, and a resumed
    run needs only the number of batches done. Without a seed, each iteration draws one from torch's global generator,
    as torch's RandomSampler does.
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
        """Return the order of a pass; the last one is cached, because batches of one pass are requested in a row."""
        if self._cached is None or self._cached[:2] != (seed, pass_number):
            generator = torch.Generator()
            generator.manual_seed(mix(seed, pass_number))
            order = torch.randperm(len(self.data_source), generator=generator).numpy()  # quicker to slice
            self._cached = (seed, pass_number, order)
        return self._cached[2]


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Draw a seed with the same call as torch's loaders and samplers, so that random streams stay those of torch."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def mix(seed: int, number: int) -> int:
    """Combine two numbers into a well-distributed 63-bit number (the finaliser of splitmix64).

    Neighbouring seeds and passes thereby give unrelated orders: `seed + number` would make pass 1 of seed 0 the same as
    pass 0 of seed 1.
    """
    # The constants are those of splitmix64; another mixer would change the order of every existing run.
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0x7FFFFFFFFFFFFFFF


def batches_in_closed_form(batch_sampler: Any) -> Callable[[int, int, int], list[int]] | None:
    """Return a function of (pass, first record, end record) that gives the indices of a batch.

    None if the order of the batch sampler is not known in closed form.
    """
    # Exact types, because a subclass may override the order.
    if type(batch_sampler) is not BatchSampler:
        return None
    sampler: Any = batch_sampler.sampler
    if type(sampler) is SequentialSampler:
        records = len(sampler)
        return lambda _, first, end: list(range(first, min(end, records)))
    if type(sampler) is ShuffleSampler:
        # Drawn once per iteration over the sampler, not per batch.
        seed = sampler.seed if sampler.seed is not None else draw_seed()
        return lambda p, first, end: sampler.permutation(seed, p)[first:end].tolist()
    return None


def pass_access(sampler: Any) -> tuple[Callable[[int, int], Any], int] | None:
    """Return a function from (pass, index) to an item, and the number of items per pass.

    None if the order of the sampler cannot be computed directly.
    """
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
