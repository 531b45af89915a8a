"""Train on a loader that is not a `determined.pytorch.DataLoader`.

The loader is iterated again whenever it ends, and advanced to its previous position after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler

from determined.errors import InvalidExperimentException
from determined.pytorch.checkpoint.state_codec import encoded
from determined.pytorch.data.pass_start import PassStart, generators_kept, pass_start, put_back
from determined.pytorch.data.replayed_samplers import is_independent, is_stateful
from determined.pytorch.display.waiting_notice import WaitingNotice

logger = logging.getLogger("determined.pytorch")


class OtherLoaderBatches:
    """The batches of any iterable, repeated without end.

    `batches` of them were trained before. That position is reached by the first method available: restoring the state
    of the loader; restoring the state of its data set, if the loader reads it in this process; or reading all these
    batches again, unless the program skips them itself.
    """

    def __init__(
        self, loader: Any, batches: int, device: torch.device, *, skips_itself: bool = False, chief: bool = True
    ) -> None:
        self._loader = loader
        self._skips_itself = skips_itself
        self._chief = chief
        self._batches = batches
        self._device = device
        self._resumed: dict[str, Any] = {}
        self._pass = 0
        self._in_pass = 0
        self._start: PassStart | None = None
        self._iterator: Any = None

    def begin(self) -> Iterator[Any]:
        """Return an iterator over batches, starting at the position where training was."""
        if not self._batches:
            return self._repeat(None)
        # Reading batches again, or creating the iterator, must not use up random numbers of the resumed program.
        with generators_kept(self._device):
            owner = _state_owner(self._loader)
            if owner is not None and "state" in self._resumed:
                # Before the iterator is created: many loaders read their position only then.
                owner.load_state_dict(self._resumed["state"])
                return self._repeat(None if self._resumed["ended"] else iter(self._loader))
            return self._repeat(None) if self._skips_itself else self._read_again()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader or its data set, or else the pass, the position in it and its random state."""
        owner = _state_owner(self._loader)
        if owner is not None:
            # A torch loader that has returned a short last batch has read its data set to the end, so the state of the
            # data set already belongs to the next pass: resuming must then start a pass, not continue the old one.
            ended = bool(getattr(getattr(self._iterator, "_dataset_fetcher", None), "ended", False))
            state = encoded(owner.state_dict(), "the state of the training data loader")
            return {"state": state, "ended": ended and owner is not self._loader}
        return {"pass": self._pass, "batches": self._in_pass, "start": self._start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state saved on this rank; without it, passes are assumed to be as in a new process."""
        self._resumed = state

    def _read_again(self) -> Iterator[Any]:
        """Read and discard the batches trained before; only those of the current pass if earlier ones do not matter."""
        batches, start = self._batches, self._resumed.get("start")
        # An order that depends on the generators alone is repeated by restoring them, without the passes before.
        if start is not None and _has_independent_passes(self._loader):
            self._pass, batches = self._resumed["pass"], self._resumed["batches"]
        logger.log(
            logging.WARNING if self._chief else logging.DEBUG,
            "build_training_data_loader() returned a %s.%s, which cannot start in the middle: %d batches are read "
            "again to reach the position of training. A pytorch.DataLoader does not need that; nor does a loader with "
            "the methods state_dict() and load_state_dict()",
            type(self._loader).__module__,
            type(self._loader).__qualname__,
            batches,
        )
        waiting = WaitingNotice("reading data again to where training was", batches, visible=self._chief)
        again = self._repeat(None)
        for number in range(batches):
            next(again)
            waiting.tick(number + 1)
        # From here on passes begin with the generators of that moment, as in a run that was not interrupted.
        self._resumed = {}
        return again

    def _repeat(self, batches: Iterator[Any] | None) -> Iterator[Any]:
        """Yield the rest of the pass in progress, which may be empty, then one pass after the other."""
        may_be_empty = batches is not None
        while True:
            batches = self._begin_pass() if batches is None else batches
            self._in_pass, self._iterator = 0, batches
            try:
                for self._in_pass, batch in enumerate(batches, 1):
                    yield batch
            finally:
                # Also at the end of the program: a generator that is closed raises GeneratorExit at the yield.
                batches = self._iterator = None  # drops the iterator, which ends its worker processes
            if not self._in_pass and not may_be_empty:
                raise InvalidExperimentException(_no_batch(self._pass))
            may_be_empty = False
            self._pass += 1

    def _begin_pass(self) -> Iterator[Any]:
        """Start a pass, with the random state it had if it is the one in which the checkpoint was saved."""
        # The loader may draw its order from its own generator, or from that of its sampler.
        owners = (self._loader, getattr(self._loader, "sampler", None))
        resumed = self._resumed.get("start")
        if resumed is not None and self._resumed["pass"] == self._pass:
            put_back(resumed, *owners)
        self._start = pass_start(*owners)
        return iter(self._loader)


def _state_owner(loader: Any) -> Any:
    """Return the object whose state holds the position of the loader: the loader, its data set, or None."""
    if is_stateful(loader):
        return loader
    data_set = getattr(loader, "dataset", None)
    # Workers read copies of the data set, whose state this process cannot see.
    if isinstance(data_set, IterableDataset) and is_stateful(data_set) and getattr(loader, "num_workers", 0) == 0:
        return data_set
    return None


def _has_independent_passes(loader: Any) -> bool:
    """Return whether each pass depends on the random generators alone, not on earlier passes."""
    # Exact types, because a subclass may carry state from one pass to the next.
    if type(loader) is not torch.utils.data.DataLoader or isinstance(loader.dataset, IterableDataset):
        return False
    if type(loader.batch_sampler) is not BatchSampler:
        return False
    return type(loader.sampler) is SequentialSampler or is_independent(loader.sampler)


def _no_batch(passes: int) -> str:
    """Return the error message for a pass without a batch, after `passes` passes."""
    return "the loader that build_training_data_loader() returned gave no batch" + (
        f" in pass {passes + 1}: it can be iterated only once, and training is longer than that; return an object that "
        "can be iterated again"
        if passes
        else ": is the data set empty?"
    )
