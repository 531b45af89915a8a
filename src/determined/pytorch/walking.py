"""Samplers of which only walking finds the next item: how a resumed run gets back to where it was in them.

What makes the order of such a sampler is kept in checkpoints, as far as it can be had:

- a sampler (or its iterator) with `state_dict` and `load_state_dict` goes on by its own state;
- otherwise, the random generators as they were when a pass began. torch's own samplers then begin that pass again and
  walk to the record; the passes before do not matter to them.
- Of any other sampler, all passes from the first on are walked through, for it may remember them. Only indices are
  asked for, no data is loaded.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from determined.pytorch.pass_start import PassStart, generators_kept, pass_start, put_back, with_first_item
from determined.pytorch.position import DataPosition
from determined.pytorch.state_codec import Encoded, encoded
from determined.pytorch.waiting import Waiting

_FIXED = (list, tuple, range)
_DRAWN = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def is_stateful(thing: Any) -> bool:
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))


def is_independent(sampler: Any) -> bool:
    """Is a pass of it decided by the generators it begins with, whatever was before?"""
    return type(sampler) in _FIXED or type(sampler) in _DRAWN


class Walk:
    """One rank's batches by walking through a sampler, pass after pass.

    `read_ahead` is how many batches of this rank may be asked for before they are trained.
    """

    def __init__(
        self, batch_sampler: Iterable[Any], position: DataPosition, ranks: int, rank: int, read_ahead: int
    ) -> None:
        self._source: Any = batch_sampler
        self._size: int | None = None
        self._drop_last = False
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
        self._number = 0  # batches taken from the sampler, those of the other ranks included
        self._starts: deque[tuple[int, int, PassStart]] = deque()  # number of the first batch, of the pass, its start
        self._states: deque[tuple[int, Any]] = deque(maxlen=read_ahead + 2)  # batches taken, the sampler's state then

    def __iter__(self) -> Iterator[Any]:
        origin = self._position.batches
        self._begun = True
        self._return()
        while True:
            batch = self._next_batch(self._size)
            mine = self._number - 1 - origin
            if mine >= 0 and mine % self._ranks == self._rank:
                if self._read_ahead and self._is_stateful():
                    self._states.append((self._number, self._own_state()))
                yield batch

    def state_dict(self, batches: int) -> dict[str, Any]:
        """What leads back to the position after `batches` of all ranks, of which none is trained yet."""
        if not self._begun:
            return {"starts": self._resumed_starts, "sampler": self._resumed_state}
        if self._is_stateful():
            # The last rank takes its batch last, and then stands where the next round begins.
            last = self._rank == self._ranks - 1
            return {"starts": {}, "sampler": self._state_after(batches) if last else None}
        current = max((first for first, _, _ in self._starts if first <= batches), default=0)
        return {"starts": {number: start for first, number, start in self._starts if first >= current}}

    def load_state_dicts(self, ranks: list[dict[str, Any]]) -> None:
        """Take back what each rank kept; there may have been another number of them."""
        same = len(ranks) == self._ranks and self._position.batch_size == (self._size or 1)
        if same:
            # Every rank goes on behind the last batch that it took itself: a pass that begins before its next one is
            # begun when that is wanted, by the generators of that moment, as it was in a run without interruption.
            self._behind = self._ranks - 1 - self._rank
        mine = ranks[self._rank if same else -1]  # the last rank stands where the next round begins
        self._resumed_starts = dict(mine.get("starts") or {})
        self._resumed_state = ranks[-1].get("sampler")

    def _return(self) -> None:
        """Get to where the run was before."""
        if not self._position.batches:
            return
        with generators_kept():
            if self._resumed_state is not None:
                self._load_own_state()
                return
            position = self._position.back(self._behind)
            if not self._begin_current_pass(position):
                self._walk_from_the_first_pass(position)

    def _begin_current_pass(self, position: DataPosition) -> bool:
        """Begin the pass under way again, if that can be done without those before it."""
        if not is_independent(self._source):
            return False
        number, item = position.place(len(self._source), self._drop_last)
        if type(self._source) not in _FIXED and number not in self._resumed_starts:
            return False
        self._pass, self._number = number - 1, position.batches
        self._begin_pass()
        self._skip(item)
        return True

    def _walk_from_the_first_pass(self, position: DataPosition) -> None:
        waiting = Waiting(
            "walking through the sampler to where training was", position.batches, visible=self._rank == 0
        )
        for stretch in position.stretches:
            for _ in range(stretch.batches):
                self._next_batch(None if self._size is None else stretch.batch_size)
                waiting.tick(self._number)

    def _next_batch(self, size: int | None) -> Any:
        batch = self._take(size)
        if batch is None:
            self._begin_pass()
            batch = self._take(size)
            if batch is None:
                raise ValueError("a sampler without items cannot be repeated: is the data set empty?")
        self._number += 1
        return batch

    def _take(self, size: int | None) -> Any:
        """The next batch of this pass; None at its end."""
        if size is None:
            return next(self._items, None)
        batch = list(itertools.islice(self._items, size))
        return batch if len(batch) == size or (batch and not self._drop_last) else None

    def _skip(self, items: int) -> None:
        next(itertools.islice(self._items, items, items), None)

    def _begin_pass(self) -> None:
        self._pass += 1
        start = self._resumed_starts.get(self._pass)
        if start is None:
            start = pass_start(self._source)
            self._items = iter(self._source)
        else:  # it had begun before the checkpoint: the generators have moved on since
            with generators_kept():
                put_back(start, self._source)
                self._items = with_first_item(iter(self._source))
        self._starts.append((self._number, self._pass, start))
        oldest_wanted = self._number - (self._read_ahead + 1) * self._ranks
        while len(self._starts) > 1 and self._starts[1][0] <= oldest_wanted:
            self._starts.popleft()

    def _is_stateful(self) -> bool:
        return is_stateful(self._source) or is_stateful(self._items)

    def _own_state(self) -> Encoded:
        """The state of a sampler as it is now, whatever becomes of the sampler."""
        parts = {"sampler": self._source, "iterator": self._items}
        states = {name: part.state_dict() for name, part in parts.items() if is_stateful(part)}
        return copy.deepcopy(encoded(states, "the state of the training sampler"))

    def _load_own_state(self) -> None:
        if "sampler" in self._resumed_state:
            self._source.load_state_dict(copy.deepcopy(self._resumed_state["sampler"]))
        self._items = iter(self._source)
        if "iterator" in self._resumed_state:
            self._items.load_state_dict(copy.deepcopy(self._resumed_state["iterator"]))  # type: ignore[attr-defined]
        self._number = self._position.batches
        self._states.append((self._number, self._resumed_state))

    def _state_after(self, batches: int) -> Any:
        """The sampler's own state at that moment; without workers nothing is taken before it is wanted."""
        if not self._read_ahead:
            return self._own_state()
        return next((state for taken, state in self._states if taken == batches), None)
