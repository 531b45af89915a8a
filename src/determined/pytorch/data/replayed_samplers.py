"""Resume samplers whose order is not known in closed form, by iterating over them.

What determines the order of such a sampler is saved in checkpoints where possible:

- A sampler (or its iterator) with `state_dict` and `load_state_dict` is restored by its own state.
- Otherwise the random generators at the start of a pass are saved. torch's own samplers then repeat that pass and are
  advanced to the record; earlier passes do not matter to them.
- Any other sampler is iterated from its first pass on, because it may depend on earlier passes. Only indices are
  requested, no data is loaded.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from determined.pytorch.checkpoint.state_codec import Encoded, encoded
from determined.pytorch.data.pass_start import PassStart, generators_kept, pass_start, put_back, with_first_item
from determined.pytorch.data.position import DataPosition
from determined.pytorch.display.waiting_notice import WaitingNotice

# A list has the same order in every pass.
_FIXED = (list, tuple, range)
_DRAWN = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def is_stateful(thing: Any) -> bool:
    """Return whether an object has `state_dict` and `load_state_dict`."""
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))


def is_independent(sampler: Any) -> bool:
    """Return whether a pass of a sampler depends only on the random generators at its start, not on earlier passes."""
    return type(sampler) in _FIXED or type(sampler) in _DRAWN


class ReplayedBatches:
    """The batches of one rank, found by iterating over a sampler pass after pass.

    `read_ahead` is the number of batches that loader workers may request before they are trained.
    """

    def __init__(
        self, batch_sampler: Iterable[Any], position: DataPosition, ranks: int, rank: int, read_ahead: int
    ) -> None:
        self._source: Any = batch_sampler
        self._size: int | None = None
        self._drop_last = False
        # Unwrapped, because the sampler below has the state, and a changed batch size must not change its order.
        if type(batch_sampler) is BatchSampler:
            self._source = batch_sampler.sampler
            self._size, self._drop_last = batch_sampler.batch_size, batch_sampler.drop_last
        self._position = position
        self._ranks = ranks
        self._rank = rank
        self._read_ahead = read_ahead
        self._behind = 0
        self._resumed_starts: dict[int, PassStart] = {}
        self._resumed_state: Any = None

        self._begun = False
        self._items: Iterator[Any] = iter(())
        self._pass = -1
        self._number = 0  # batches taken from the sampler, including those of other ranks
        # For each pass: the number of its first batch, its own number, and the generators at its start.
        self._starts: deque[tuple[int, int, PassStart]] = deque()
        # The number of batches taken, and the sampler's state after them: of those that workers may have requested
        # ahead, of the one being trained, and of the one before it.
        self._states: deque[tuple[int, Any]] = deque(maxlen=read_ahead + 2)

    def __iter__(self) -> Iterator[Any]:
        origin = self._position.batches
        self._begun = True
        self._return()
        while True:
            batch = self._next_batch(self._size)
            mine = self._number - 1 - origin
            # Each rank iterates over the batches of all ranks and keeps
            # its own, so that all agree on which rank gets which.
            if mine >= 0 and mine % self._ranks == self._rank:
                # Without workers the current state is the wanted one, so nothing is copied for each batch.
                if self._read_ahead and self._is_stateful():
                    self._states.append((self._number, self._own_state()))
                yield batch

    def state_dict(self, batches: int) -> dict[str, Any]:
        """Return the state for resuming after `batches` batches of all ranks; more may have been read ahead."""
        # A checkpoint before the first batch passes on what it was restored with.
        if not self._begun:
            return {"starts": self._resumed_starts, "sampler": self._resumed_state}
        if self._is_stateful():
            # The last rank takes its batch last, so its sampler is where the next round of all ranks begins.
            last = self._rank == self._ranks - 1
            return {"starts": {}, "sampler": self._state_after(batches) if last else None}
        # Workers may have begun the next pass already, so that the start of the one being trained is needed as well.
        current = max((first for first, _, _ in self._starts if first <= batches), default=0)
        return {"starts": {number: start for first, number, start in self._starts if first >= current}}

    def load_state_dicts(self, ranks: list[dict[str, Any]]) -> None:
        """Restore the states that each rank saved; the number of ranks may have changed."""
        same = len(ranks) == self._ranks and self._position.batch_size == (self._size or 1)
        if same:
            # Each rank resumes after the last batch that it took itself. If a pass begins before its next batch, the
            # pass then starts when that batch is requested, with the generators of that moment, as without a restart.
            self._behind = self._ranks - 1 - self._rank
        mine = ranks[self._rank if same else -1]  # the last rank is where the next round begins
        self._resumed_starts = dict(mine.get("starts") or {})
        self._resumed_state = ranks[-1].get("sampler")

    def _return(self) -> None:
        """Advance the sampler to where the run was, without changing the program's random generators."""
        if not self._position.batches:
            return
        with generators_kept():
            # A state knows its position, so nothing has to be iterated.
            if self._resumed_state is not None:
                self._load_own_state()
                return
            position = self._position.back(self._behind)
            if not self._begin_current_pass(position):
                self._iterate_from_the_first_pass(position)

    def _begin_current_pass(self, position: DataPosition) -> bool:
        """Start the current pass again and advance in it; return False if that needs the passes before it."""
        # Any other sampler may count its passes, such as one with set_epoch().
        if not is_independent(self._source):
            return False
        number, item = position.place(len(self._source), self._drop_last)
        if type(self._source) not in _FIXED and number not in self._resumed_starts:
            return False
        self._pass, self._number = number - 1, position.batches
        self._begin_pass()
        self._skip(item)
        return True

    def _iterate_from_the_first_pass(self, position: DataPosition) -> None:
        """Iterate over all batches up to the position, with the batch sizes they had."""
        waiting = WaitingNotice(
            "advancing the sampler to where training was", position.batches, visible=self._rank == 0
        )
        for span in position.spans:
            for _ in range(span.batches):
                # The old batch sizes, because the position in the sampler counts records.
                self._next_batch(None if self._size is None else span.batch_size)
                waiting.tick(self._number)

    def _next_batch(self, size: int | None) -> Any:
        """Return the next batch of any rank, starting a new pass at the end of one."""
        batch = self._take(size)
        if batch is None:
            self._begin_pass()
            batch = self._take(size)
            if batch is None:
                raise ValueError("a sampler without items cannot be repeated: is the data set empty?")
        self._number += 1
        return batch

    def _take(self, size: int | None) -> Any:
        """Return the next batch of this pass, or None at its end."""
        if size is None:
            return next(self._items, None)
        batch = list(itertools.islice(self._items, size))
        return batch if len(batch) == size or (batch and not self._drop_last) else None

    def _skip(self, items: int) -> None:
        """Advance the iterator by this number of items."""
        # islice advances without a Python loop.
        next(itertools.islice(self._items, items, items), None)

    def _begin_pass(self) -> None:
        """Start the next pass and record the generators at its start; drop records that can no longer be needed."""
        self._pass += 1
        start = self._resumed_starts.get(self._pass)
        if start is None:
            start = pass_start(self._source)
            self._items = iter(self._source)
        else:  # the pass had begun before the checkpoint, whose generators are of a later moment
            with generators_kept():
                put_back(start, self._source)
                self._items = with_first_item(iter(self._source))
        self._starts.append((self._number, self._pass, start))
        # A checkpoint may be up to this many batches behind what workers have requested.
        oldest_wanted = self._number - (self._read_ahead + 1) * self._ranks
        while len(self._starts) > 1 and self._starts[1][0] <= oldest_wanted:
            self._starts.popleft()

    def _is_stateful(self) -> bool:
        """Return whether the sampler or its iterator restores its own position."""
        return is_stateful(self._source) or is_stateful(self._items)

    def _own_state(self) -> Encoded:
        """Return a copy of the current state of the sampler and its iterator."""
        parts = {"sampler": self._source, "iterator": self._items}
        states = {name: part.state_dict() for name, part in parts.items() if is_stateful(part)}
        # A copy, because state_dict() may return objects that the sampler changes while it advances.
        return copy.deepcopy(encoded(states, "the state of the training sampler"))

    def _load_own_state(self) -> None:
        """Restore the state of the sampler and of its iterator."""
        if "sampler" in self._resumed_state:
            # A copy, because the sampler may keep and change the object,
            # and a checkpoint before the first batch saves it again.
            self._source.load_state_dict(copy.deepcopy(self._resumed_state["sampler"]))
        self._items = iter(self._source)
        if "iterator" in self._resumed_state:
            self._items.load_state_dict(copy.deepcopy(self._resumed_state["iterator"]))  # type: ignore[attr-defined]
        self._number = self._position.batches
        self._states.append((self._number, self._resumed_state))

    def _state_after(self, batches: int) -> Any:
        """Return the sampler's state after `batches` batches; without workers that is the current state."""
        if not self._read_ahead:
            return self._own_state()
        return next((state for taken, state in self._states if taken == batches), None)
