"""Turn the loaders that a trial builds into the batches that the loop reads: endless, sharded and positioned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from determined.errors import InvalidExperimentException
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.batch_sharding import ShardedBatches, batch_size, pass_shape
from determined.pytorch.data.closed_form import mix
from determined.pytorch.data.loader import (
    DataLoader,
    load_sharded,
    order_by_global_generator,
    order_by_seed,
    shard,
)
from determined.pytorch.data.other_loaders import OtherLoaderBatches
from determined.pytorch.data.pass_start import generators_kept
from determined.pytorch.data.position import DataPosition, PassShape, offset_of_epochs
from determined.pytorch.plan import UNKNOWN_LENGTH

logger = logging.getLogger("determined.pytorch")

_BUILDERS = ("build_training_data_loader", "build_validation_data_loader")


def checked(loader: Any, method: str, context: PyTorchTrialContext) -> Any:
    """Return the result of a `build_*_data_loader` method with its order seeded; raise if the loop cannot use it."""
    if isinstance(loader, DataLoader):
        # The order of 0.38.1 for comparisons; it changes at a restart.
        if context.experimental._global_shuffle:
            order_by_global_generator(loader)
        else:
            # Separate seeds: otherwise training and validation data of equal length would have the same order.
            order_by_seed(loader, mix(context.get_trial_seed(), _BUILDERS.index(method)))
        return loader
    if not context.experimental._any_loader:
        kind = f"{type(loader).__module__}.{type(loader).__qualname__}"
        raise RuntimeError(
            f"{method}(): return determined.pytorch.DataLoader(...) instead of {kind}"
            + (", with the same arguments" if isinstance(loader, torch.utils.data.DataLoader) else "")
            + ". It is sharded over ranks and resumes in the middle of an epoch. To use another loader as it is, call "
            "context.experimental.disable_dataset_reproducibility_checks() in the trial's __init__."
        )
    if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
        raise TypeError(f"{method}() must return something to iterate over, got {type(loader).__name__}: {loader!r}")
    return loader


class TrainingData:
    """This rank's endless sequence of training batches, starting after those that were already trained.

    `before` is the position of all ranks together in the data according to a checkpoint, or None: checkpoints of old
    releases do not contain it.
    """

    def __init__(
        self, loader: Any, context: PyTorchTrialContext, batches_trained: int, before: DataPosition | None = None
    ) -> None:
        ranks = context.distributed
        self._ranks = ranks
        self._begun_at = batches_trained
        own = isinstance(loader, DataLoader)
        self._batch_size = batch_size(loader.batch_sampler) if own else 1
        if before is None:
            # Old checkpoints count batches per rank; the run is assumed
            # to have had as many ranks and the same batch size.
            before = DataPosition(ranks=ranks.size).moved(batches_trained * ranks.size, self._batch_size)
        self._before = before
        self._sharded: ShardedBatches | None = None
        self._other: OtherLoaderBatches | None = None
        # A subclass that overrides get_data_loader() must get its call, at the cost of exact sharding after changes.
        if own and type(loader).get_data_loader is DataLoader.get_data_loader:
            self._sharded = shard(loader, before, ranks.size, ranks.rank)
            self.loader = load_sharded(loader, self._sharded)
        elif own:  # a subclass that creates the torch loader itself
            # Rounded down: with another number of ranks a few batches are repeated rather than left out.
            skip = before.batches // ranks.size
            self.loader = loader.get_data_loader(repeat=True, skip=skip, num_replicas=ranks.size, rank=ranks.rank)
        else:
            self.loader = loader
            self._other = OtherLoaderBatches(
                loader,
                before.batches // ranks.size,
                context.device,
                # A program that asked for the initial batch skips the
                # batches before it; skipping twice would leave out data.
                skips_itself=context._initial_batch_asked,
                chief=ranks.rank == 0,
            )

        # All ranks must use the same length, or they would disagree on when an epoch ends: the chief's is used.
        self.epoch_length: int
        self.epoch_offset: int
        self.epoch_length, self.epoch_offset = ranks.broadcast(self._epochs(loader.batch_sampler if own else None))
        if self.epoch_length == 0:
            raise InvalidExperimentException(
                "the loader that build_training_data_loader() returned is empty (its length is 0): "
                "is the data set empty, or drop_last set with fewer records than a batch?"
            )
        self.iterator: Iterator[Any] = iter(())

    def _epochs(self, batch_sampler: Any) -> tuple[int, int]:
        """Return the number of batches in an epoch and the epoch offset, see `offset_of_epochs`."""
        length = _length(self.loader)
        if length == UNKNOWN_LENGTH or length == 0:
            return length, 0
        # A foreign loader is assumed to return this rank's share only, so all ranks together have this many batches.
        shape = pass_shape(batch_sampler) if batch_sampler is not None else PassShape(length * self._ranks.size, 1)
        if shape is None:  # the length is known only from a torch loader that a subclass created
            return length, self._before.epoch_offset
        return length, offset_of_epochs(self._before, self._begun_at, shape, self._ranks.size, length)

    def begin(self) -> Iterator[Any]:
        """Return the iterator over batches.

        In a resumed run the random generators were just restored from the checkpoint, so creating the iterator must not
        change them: they are reset afterwards.
        """
        if self._other is not None:
            self.iterator = self._other.begin()
        elif self._begun_at:
            with generators_kept():
                self.iterator = iter(self.loader)
        else:
            self.iterator = iter(self.loader)
        return self.iterator

    def position(self, batches_trained: int) -> DataPosition:
        """Return the position of all ranks together in the data after `batches_trained` batches on each rank."""
        moved = self._before.moved((batches_trained - self._begun_at) * self._ranks.size, self._batch_size)
        return moved._replace(ranks=self._ranks.size, epoch_offset=self.epoch_offset)

    def state_dict(self, batches_trained: int) -> dict[str, Any] | None:
        """Return the state that this rank needs to resume besides the position, or None."""
        if self._other is not None:
            return self._other.state_dict()
        if self._sharded is not None and self._sharded.replayed is not None:
            return self._sharded.replayed.state_dict(self.position(batches_trained).batches)
        return None

    def load_state_dicts(self, states: list[dict[str, Any]]) -> None:
        """Restore the states of all ranks in the checkpoint; call it before `begin`."""
        if self._sharded is not None and self._sharded.replayed is not None:
            self._sharded.replayed.load_state_dicts(states)
        elif self._other is not None and len(states) == self._ranks.size:
            self._other.load_state_dict(states[self._ranks.rank])
        elif self._other is not None:
            logger.warning(
                "the loader that build_training_data_loader() returned was used on %d ranks, and now there are %d: "
                "only the loader knows how it distributes records, so some may be trained twice or not at all in this "
                "pass; a pytorch.DataLoader keeps the order",
                len(states),
                self._ranks.size,
            )

    def close(self) -> None:
        """End the worker processes of the loader."""
        # `own`: the loop is the only user of this iterator, so persistent workers end as well.
        end(self.iterator, own=True)
        self.iterator = iter(())


def end(iterator: Any, *, own: bool) -> None:
    """Shut down an iterator's worker processes now instead of at its garbage collection.

    Persistent workers of a loader that is not ours (`own` false) are kept: the program may use the loader again.
    """
    if getattr(iterator, "_persistent_workers", False) and not own:
        return
    shut_down = getattr(iterator, "_shutdown_workers", None)  # private: torch has no public way to end workers
    if callable(shut_down):
        shut_down()
    elif hasattr(iterator, "close"):
        iterator.close()


def validation_loader(loader: Any, context: PyTorchTrialContext, *, full_dataset: bool) -> Any:
    """Return a loader over this rank's share of the validation data, or over all of it if `full_dataset`."""
    if not isinstance(loader, DataLoader):
        return loader
    # `evaluate_full_dataset` runs on the chief alone, which needs all of the data.
    if full_dataset:
        return loader.get_data_loader()
    return loader.get_data_loader(num_replicas=context.distributed.size, rank=context.distributed.rank)


def _length(loader: Any) -> int:
    """Return the number of batches, or UNKNOWN_LENGTH."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return UNKNOWN_LENGTH
