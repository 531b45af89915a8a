"""Samplers that can only be iterated keep their order over restarts, for any ranks, batch sizes and workers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import RandomSampler, WeightedRandomSampler
from torchdata.stateful_dataloader.sampler import RandomSampler as StatefulRandomSampler

from determined import pytorch
from determined.pytorch.checkpoint.state_codec import Decoder, Encoder, References
from determined.pytorch.data.loader import shard
from determined.pytorch.data.position import DataPosition

RECORDS = 11


def through_checkpoint(state: Any) -> Any:
    """Return the state as a resumed run gets it."""
    return Decoder("mine", References()).decode(Encoder(References(), {}).encode(state), None)


class CountsPasses:
    """The order depends on how often it was iterated before, which cannot be queried."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return iter(random.Random(self.passes).sample(range(RECORDS), RECORDS))


class OwnState(CountsPasses):
    at = 0

    def __iter__(self) -> Iterator[int]:
        order = random.Random(self.passes).sample(range(RECORDS), RECORDS)
        while self.at < RECORDS:
            self.at += 1
            yield order[self.at - 1]
        self.passes, self.at = self.passes + 1, 0

    def state_dict(self) -> dict[str, Any]:
        return {"passes": self.passes, "at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.passes, self.at = state["passes"], state["at"]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": lambda: RandomSampler(range(RECORDS), generator=seeded()),
    "weighted": lambda: WeightedRandomSampler([1.0] * RECORDS, RECORDS, generator=seeded()),
    "list": lambda: [5, 1, 2, 2, 9],
    "counts passes": CountsPasses,
    "own state": OwnState,
    "torchdata": lambda: StatefulRandomSampler(range(RECORDS), generator=seeded()),
}

# The consecutive runs: ranks, batch size, batches of each rank, and how many a loader requested too many.
histories = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 7), st.integers(0, 4)), min_size=2, max_size=4
)


@settings(max_examples=150)
@given(kind=st.sampled_from(sorted(SAMPLERS)), drop_last=st.booleans(), history=histories)
def test_any_history_keeps_the_order_of_records(
    kind: str, drop_last: bool, history: list[tuple[int, int, int, int]]
) -> None:
    position, states, trained = DataPosition(), list[dict[str, Any]](), list[list[int]]()
    for ranks, size, batches, ahead in history:
        shares, kept = [], []
        after = position.moved(batches * ranks, size)
        for rank in range(ranks):
            workers: dict[str, Any] = {"num_workers": 1, "prefetch_factor": ahead} if ahead else {}
            loader = pytorch.DataLoader(range(RECORDS), size, sampler=SAMPLERS[kind](), drop_last=drop_last, **workers)
            dealt = shard(loader, position, ranks, rank)
            assert dealt.replayed is not None
            if states:
                dealt.replayed.load_state_dicts(states)
            shares.append(list(itertools.islice(iter(dealt), batches + ahead))[:batches])
            kept.append(through_checkpoint(dealt.replayed.state_dict(after.batches)))
        trained += [batch for turn in zip(*shares, strict=True) for batch in turn]
        position, states = after, kept

    sampler = SAMPLERS[kind]()
    left = list(sampler)
    for batch in trained:
        if not left or (drop_last and len(left) < len(batch)):
            left = list(sampler)
        assert batch == left[: len(batch)]
        left = left[len(batch) :]


def test_walking_leaves_the_programs_generators_alone() -> None:
    def states() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), random.getstate()

    loader = pytorch.DataLoader(range(RECORDS), 2, sampler=RandomSampler(range(RECORDS)))
    dealt = iter(shard(loader, DataPosition().moved(40, 2), 1, 0))
    before = states()
    next(dealt)
    assert states() == before
