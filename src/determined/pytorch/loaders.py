"""What the loop reads from: the trial's loaders, made endless, sharded and positioned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from determined.errors import InvalidExperimentException
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data import DataLoader
from determined.pytorch.plan import UNKNOWN_LENGTH
from determined.pytorch.samplers import mix

_BUILDERS = ("build_training_data_loader", "build_validation_data_loader")


def checked(loader: Any, method: str, context: PyTorchTrialContext) -> Any:
    """What a `build_*_data_loader` method returned, if the loop can use it."""
    if isinstance(loader, DataLoader):
        if context.experimental._global_shuffle:
            loader.order_by_global_generator()
        else:
            loader.order_by_seed(mix(context.get_trial_seed(), _BUILDERS.index(method)))
        return loader
    if not context.experimental._any_loader:
        raise RuntimeError(
            f"{method}() must return a determined.pytorch.DataLoader, got {type(loader).__name__}; to use it as it is, "
            "call context.experimental.disable_dataset_reproducibility_checks() in __init__"
        )
    if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
        raise TypeError(f"{method}() must return something to iterate over, got {type(loader).__name__}: {loader!r}")
    return loader


class TrainingData:
    """This rank's batches without end, beginning behind the batches that were trained already."""

    def __init__(self, loader: Any, context: PyTorchTrialContext, batches_trained: int) -> None:
        self.loader = loader
        ranks = context.distributed
        if isinstance(loader, DataLoader):
            self.loader = loader.get_data_loader(
                repeat=True, skip=batches_trained, num_replicas=ranks.size, rank=ranks.rank
            )
        # One length for all ranks: the chief's.
        self.epoch_length: int = ranks.broadcast(_length(self.loader))
        if self.epoch_length == 0:
            raise InvalidExperimentException(
                "the loader that build_training_data_loader() returned is empty (its length is 0): "
                "is the data set empty, or drop_last set with fewer records than a batch?"
            )
        if isinstance(loader, DataLoader):
            self.iterator: Iterator[Any] = iter(self.loader)
        else:
            self.iterator = _over_and_over(self.loader)

    def close(self) -> None:
        end(self.iterator, own=True)
        self.iterator = iter(())


def end(iterator: Any, *, own: bool) -> None:
    """End an iterator's worker processes now, not when the garbage collector comes by.

    Persistent workers of a foreign loader are spared: the program may go on with it.
    """
    if getattr(iterator, "_persistent_workers", False) and not own:
        return
    shut_down = getattr(iterator, "_shutdown_workers", None)
    if callable(shut_down):
        shut_down()
    elif hasattr(iterator, "close"):
        iterator.close()


def validation_loader(loader: Any, context: PyTorchTrialContext, *, whole: bool) -> Any:
    """This rank's share of the validation data; with `whole`, all of it."""
    if not isinstance(loader, DataLoader):
        return loader
    if whole:
        return loader.get_data_loader()
    return loader.get_data_loader(num_replicas=context.distributed.size, rank=context.distributed.rank)


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return UNKNOWN_LENGTH


def _over_and_over(loader: Any) -> Iterator[Any]:
    passes = 0
    while True:
        batches = 0
        for batch in loader:
            batches += 1
            yield batch
        if batches == 0:
            raise InvalidExperimentException(
                "the loader that build_training_data_loader() returned gave no batch"
                + (
                    f" in pass {passes + 1}: it can be iterated only once, and training is longer than that; return "
                    "an object that can be iterated again"
                    if passes
                    else ": is the data set empty?"
                )
            )
        passes += 1
