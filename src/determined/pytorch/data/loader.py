"""`DataLoader`: the arguments of a torch loader, from which the loop creates one that is sharded and positioned.

The functions at the module level are those of `DataLoader` that only the loop calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from determined.pytorch.data.batch_sharding import ShardedBatches
from determined.pytorch.data.closed_form import ShuffleSampler, mix
from determined.pytorch.data.position import DataPosition
from determined.pytorch.data.torch_loader import BeginWorker, OwnLoader, default_collate
from determined.pytorch.data.worker_seeds import NumberedBatches, SeededRecords
from determined.pytorch.samplers import adapt_batch_sampler

TorchData: TypeAlias = dict[str, torch.Tensor] | Sequence[torch.Tensor] | torch.Tensor
"""The type of a batch for `train_batch` and `evaluate_batch`: tensors, in any nesting of dicts, lists and tuples."""

_Array = np.ndarray[Any, Any]
_Data: TypeAlias = dict[str, _Array | torch.Tensor] | Sequence[_Array | torch.Tensor] | _Array | torch.Tensor

# Each purpose gets a separate seed, so that changing one stream of random numbers does not change another. Numbers
# from 0 on are not available: they are passes, whose order derives from the trial's seed and the pass number.
_FOR_WORKERS, _FOR_BATCHES = -1, -2

# Read from torch's signature, so that options of newer releases are accepted and misspelled ones are rejected at once.
_TORCH_OPTIONS = frozenset(inspect.signature(torch.utils.data.DataLoader.__init__).parameters) - {"self"}


class DataLoader:
    """A drop-in replacement for `torch.utils.data.DataLoader` in the trial's `build_*_data_loader` methods.

    It takes torch's arguments for map-style data sets (`batch_size=None` needs a `batch_sampler`). The loop creates
    from them a torch loader that repeats, is sharded over ranks and starts at the right batch. With `shuffle=True` and
    neither a sampler nor a generator, the order of each pass is derived from the trial's seed and the pass number: it
    is the same on all ranks and after a restart.

    Outside a training run it can be iterated like a torch loader.

    Raises ValueError for combinations that cannot work, such as an `IterableDataset`, `sampler` together with
    `shuffle`, or worker options without workers, and TypeError for unknown keywords.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        **torch_options: Any,
    ) -> None:
        _refuse_what_cannot_work(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, drop_last, timeout)
        _refuse_worker_options(num_workers, prefetch_factor, persistent_workers, torch_options)

        self.dataset = dataset
        self.num_workers = num_workers
        self.collate_fn = collate_fn if collate_fn is not None else default_collate
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        # torch's own default, which `shard` needs as a number.
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self._torch_options = torch_options
        self._worker_seed: int | None = None

        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        # As in torch: a batch sampler decides the size of a batch.
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        if batch_sampler is None:
            assert batch_size is not None
            if sampler is None:
                self.sampler = _default_sampler(dataset, shuffle, generator)
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)

    def get_data_loader(
        self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0
    ) -> torch.utils.data.DataLoader[Any]:
        """Return a torch loader over this rank's batches.

        Args:
            repeat: continue with the next pass at the end of the data, without end.
            skip: leave out the first `skip` batches of this rank.
            num_replicas: the number of ranks among which batches are distributed.
            rank: the number of this rank, from 0.
        """
        batches = adapt_batch_sampler(self.batch_sampler, repeat, skip, num_replicas, rank)
        return self._loader(batches, rank + skip * num_replicas, num_replicas)

    def _loader(self, batches: Any, first: int, step: int) -> torch.utils.data.DataLoader[Any]:
        """Return a torch loader over index lists, numbered first, first + step, ... among those of all ranks."""
        generator = self.generator
        if self._worker_seed is not None and generator is None:
            # Workers draw their first seeds from this generator, so that the global one is used only by the program.
            # The seed depends on the position: after a restart workers must not repeat earlier random numbers, which a
            # program may use directly.
            generator = torch.Generator()
            generator.manual_seed(mix(mix(self._worker_seed, _FOR_WORKERS), first))
        options = {
            "num_workers": self.num_workers,
            "collate_fn": self.collate_fn,
            "pin_memory": self.pin_memory,
            "timeout": self.timeout,
            "worker_init_fn": BeginWorker(self.worker_init_fn) if self.num_workers else self.worker_init_fn,
            "multiprocessing_context": self.multiprocessing_context,
            "generator": generator,
            "prefetch_factor": self.prefetch_factor,
            "persistent_workers": self.persistent_workers,
            **self._torch_options,
        }
        loader = OwnLoader(self.dataset, batch_sampler=batches, **options)
        # A second loader, because workers must see the wrapped data set and the program its own, see `OwnLoader`.
        if self._worker_seed is not None and self.num_workers:
            loader.behind = torch.utils.data.DataLoader(
                SeededRecords(self.dataset, mix(self._worker_seed, _FOR_BATCHES)),  # type: ignore[arg-type]
                batch_sampler=NumberedBatches(batches, first, step),  # type: ignore[arg-type]
                **options,
            )
        return loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get_data_loader())

    def __len__(self) -> int:
        return len(self.batch_sampler)


def order_by_seed(loader: DataLoader, seed: int) -> None:
    """Derive the shuffled order and the seeds of workers from `seed`; a user's sampler or generator is kept."""
    loader._worker_seed = seed
    # Only our sampler can be seeded from outside; a user's sampler keeps its own order.
    if isinstance(loader.sampler, ShuffleSampler):
        loader.sampler.seed = seed


def order_by_global_generator(loader: DataLoader) -> None:
    """Shuffle with torch's global generator, read at the start of each pass, as releases up to 0.38 did."""
    if isinstance(loader.sampler, ShuffleSampler):
        assert loader.batch_size is not None
        # RandomSampler reads the global generator at the start of each pass.
        loader.sampler = RandomSampler(loader.dataset)
        loader.batch_sampler = BatchSampler(loader.sampler, loader.batch_size, loader.drop_last)


def shard(loader: DataLoader, position: DataPosition, ranks: int, rank: int) -> ShardedBatches:
    """Return one rank's share of the index lists of a training run that starts at `position`."""
    # torch requests this many batches before the one that is trained.
    read_ahead = loader.num_workers * (loader.prefetch_factor or 0)
    return ShardedBatches(loader.batch_sampler, position, ranks, rank, read_ahead)


def load_sharded(loader: DataLoader, batches: ShardedBatches) -> torch.utils.data.DataLoader[Any]:
    """Return a torch loader over index lists that `shard` returned."""
    return loader._loader(batches, batches.first, batches.ranks)


def _default_sampler(dataset: Any, shuffle: bool, generator: torch.Generator | None) -> Any:
    """Return torch's sampler, except for a shuffle without a generator, whose order must survive a restart."""
    if not shuffle:
        return SequentialSampler(dataset)
    # A user's generator also decides the order, as with torch; its state is stored with the position.
    if generator is not None:
        return RandomSampler(dataset, generator=generator)
    return ShuffleSampler(dataset)


def _refuse_what_cannot_work(
    dataset: Any,
    batch_size: int | None,
    shuffle: bool,
    sampler: Iterable[int] | None,
    batch_sampler: Iterable[list[int]] | None,
    num_workers: int,
    drop_last: bool,
    timeout: float,
) -> None:
    """Raise ValueError for arguments that exclude each other or that the loop cannot use."""
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            f"pytorch.DataLoader takes map-style data sets, got the IterableDataset {type(dataset).__name__}; "
            "use torch.utils.data.DataLoader and call context.experimental.disable_dataset_reproducibility_checks()"
        )
    if num_workers < 0:
        raise ValueError(f"num_workers is 0 or more, got {num_workers!r}")
    if timeout < 0:
        raise ValueError(f"timeout is 0 or more seconds, got {timeout!r}")
    if sampler is not None and shuffle:
        raise ValueError("sampler and shuffle exclude each other: a sampler decides the order")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
    # torch would return single records then, and the loop counts batches.
    elif batch_size is None:
        raise ValueError("batch_size=None (no batching) needs a batch_sampler here")


def _refuse_worker_options(
    num_workers: int, prefetch_factor: int | None, persistent_workers: bool, torch_options: dict[str, Any]
) -> None:
    """Raise for options that need workers if there are none, and for keywords that torch does not know."""
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError(f"prefetch_factor={prefetch_factor!r} needs worker processes: num_workers is 0")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor is 1 or more, got {prefetch_factor!r}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers needs worker processes: num_workers is 0")
    for name in torch_options:
        if name not in _TORCH_OPTIONS:
            raise TypeError(f"DataLoader got an unexpected keyword argument {name!r}")
