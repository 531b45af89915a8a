"""Seed the random generators of loader workers for each batch by its number.

torch seeds a worker once, when it starts, so its random numbers for a batch depend on all batches it loaded before.
After a restart, or with another number of workers, the same batch would get different random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
import torch

from determined.pytorch.data.closed_form import mix


class NumberedBatches:
    """Index lists together with the number of each batch among those of all ranks."""

    def __init__(self, batches: Iterable[Any], first: int, step: int) -> None:
        self._batches = batches
        self._first = first
        self._step = step

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        # Not strict, since the numbers are endless.
        return zip(count(self._first, self._step), self._batches, strict=False)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


class SeededRecords:
    """A data set as seen by workers: the generators are seeded before the records of a batch are fetched."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self._seed = seed

    def __getitems__(self, numbered: tuple[int, Any]) -> Any:
        number, indices = numbered
        # By the number among all ranks, so that no two ranks use the same random numbers.
        seed = mix(self._seed, number)
        # Not torch.manual_seed, which also queues a call for every kind of device, for each batch.
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        # numpy accepts 32 bits only.
        np.random.seed(seed & 0xFFFFFFFF)
        dataset = self.dataset
        fetch_many = getattr(dataset, "__getitems__", None)
        if fetch_many:
            return fetch_many(indices)
        return [dataset[index] for index in indices]


def show_own_data_set() -> None:
    """Make `get_worker_info().dataset` the user's data set in a worker, because `worker_init_fn` may change it."""
    info = torch.utils.data.get_worker_info()
    if info is not None and isinstance(info.dataset, SeededRecords):
        object.__setattr__(info, "dataset", info.dataset.dataset)  # the class forbids ordinary assignment
