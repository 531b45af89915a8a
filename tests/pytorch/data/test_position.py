"""The position in the data: counted over all ranks, for changing numbers of ranks and batch sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined import pytorch
from determined.errors import InvalidCheckpointException
from determined.pytorch.data.closed_form import ShuffleSampler
from determined.pytorch.data.loader import order_by_seed, shard
from determined.pytorch.data.position import BatchSpan, DataPosition, PassShape, offset_of_epochs
from determined.pytorch.plan import Plan

SEED = 5


class SameOrder:
    """The records of a seeded shuffle (or in order), as a sampler that can only be iterated."""

    def __init__(self, records: int, shuffle: bool) -> None:
        self.records, self.shuffle, self.passes = records, shuffle, 0

    def __iter__(self) -> Iterator[int]:
        order = one_pass(self.records, self.shuffle, self.passes)
        self.passes += 1
        return iter(order)

    def __len__(self) -> int:
        return self.records


class WithoutLength:
    def __init__(self, inner: SameOrder) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        return iter(self.inner)


def one_pass(records: int, shuffle: bool, number: int) -> list[int]:
    if not shuffle:
        return list(range(records))
    return list(ShuffleSampler(range(records)).permutation(SEED, number).tolist())


def loader(kind: str, records: int, size: int, shuffle: bool, drop_last: bool) -> pytorch.DataLoader:
    if kind == "known":
        known = pytorch.DataLoader(range(records), size, shuffle=shuffle, drop_last=drop_last)
        order_by_seed(known, SEED)
        return known
    sampler: Any = SameOrder(records, shuffle)
    return pytorch.DataLoader(
        range(records), size, sampler=WithoutLength(sampler) if kind == "no length" else sampler, drop_last=drop_last
    )


# The consecutive runs: ranks, batch size, batches of each rank.
histories = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=5)


@settings(max_examples=200)
@given(
    records=st.integers(1, 23),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    history=histories,
    kind=st.sampled_from(["known", "walked", "no length"]),
)
def test_any_history_of_ranks_and_batch_sizes_keeps_the_order_of_records(
    records: int, shuffle: bool, drop_last: bool, history: list[tuple[int, int, int]], kind: str
) -> None:
    position, trained = DataPosition(), list[list[int]]()
    for ranks, size, batches in history:
        if drop_last and size > records:
            return
        shares = [
            list(
                itertools.islice(shard(loader(kind, records, size, shuffle, drop_last), position, ranks, rank), batches)
            )
            for rank in range(ranks)
        ]
        trained += [batch for turn in zip(*shares, strict=True) for batch in turn]
        position = position.moved(batches * ranks, size)
    assert position.batches == len(trained)

    # One record after the other, as in a single process; with drop_last a pass may end before its last ones.
    passes = (one_pass(records, shuffle, number) for number in itertools.count())
    left = next(passes)
    for batch in trained:
        if not left or (drop_last and len(left) < len(batch)):
            left = next(passes)
        assert batch == left[: len(batch)]
        left = left[len(batch) :]
    if not drop_last:
        flat = [record for batch in trained for record in batch]
        whole = len(flat) // records
        for number in range(whole):
            assert sorted(flat[number * records : (number + 1) * records]) == list(range(records))


def test_a_position_far_away_takes_no_time() -> None:
    far = DataPosition().moved(10**12 + 3, 10)
    known = loader("known", 100, 10, True, False)
    assert next(iter(shard(known, far, 2, 1))) == one_pass(100, True, 10**11)[40:50]


def test_stretches_of_one_batch_size_are_one() -> None:
    position = DataPosition().moved(4, 8).moved(0, 4).moved(6, 8).moved(2, 4)
    assert position.spans == (BatchSpan(10, 8), BatchSpan(2, 4))
    assert position.batches == 12
    assert position.back(1).batches == 11
    assert DataPosition.from_dict(position.as_dict(), "abc") == position


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        {},
        {"ranks": 0, "epoch_offset": 0, "stretches": []},
        {"ranks": 1, "epoch_offset": 0, "stretches": [[1, -2]]},
        {"ranks": 1, "epoch_offset": 0, "stretches": [[1]]},
        {"ranks": 1, "epoch_offset": None, "stretches": []},
        {"ranks": True, "epoch_offset": 0, "stretches": []},
    ],
)
def test_a_position_that_is_none_is_named(stored: Any) -> None:
    with pytest.raises(InvalidCheckpointException, match=r"checkpoint abc .*position"):
        DataPosition.from_dict(stored, "abc")


@pytest.mark.parametrize(
    ("records", "before", "trained", "ranks", "epochs", "last_batch"),
    [
        # 11 batches a pass. After 9 batches on two ranks: 7 batches of pass 1 have been read.
        (11, DataPosition((BatchSpan(18, 1),), ranks=2), 9, 1, 3, 9 + 4 + 11),
        # The other way: the rest of the pass takes two batches of each rank, the next pass six.
        (11, DataPosition((BatchSpan(18, 1),), ranks=1), 18, 2, 3, 18 + 2 + 6),
        # At the very end of a pass.
        (10, DataPosition((BatchSpan(20, 1),), ranks=2), 10, 1, 3, 10 + 10),
        # Nothing changes: epochs stay what they were.
        (11, DataPosition((BatchSpan(18, 1),), ranks=2, epoch_offset=3), 9, 2, 3, 3 * 6 - 3),
    ],
)
def test_epochs_end_where_passes_do(
    records: int, before: DataPosition, trained: int, ranks: int, epochs: int, last_batch: int
) -> None:
    length = -(-records // ranks)
    offset = offset_of_epochs(before, trained, PassShape(records, 1), ranks, length)
    plan = Plan(pytorch.Epoch(epochs), length, validation_period=pytorch.Epoch(1), epoch_offset=offset)
    assert plan.last_batch == last_batch
    assert plan.epoch_of(last_batch) == (epochs, 0)
    ends = [batch for batch in range(trained + 1, last_batch + 1) if plan.epoch_of(batch)[1] == 0]
    assert plan.next_validation(trained) == ends[0]
    assert [batch for batch in ends if list(plan.due(batch))] == ends
    assert ends[-1] == last_batch
