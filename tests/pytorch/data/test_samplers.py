"""Samplers: repeat, shard, skip, shuffle, by arithmetic and by iteration."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, SequentialSampler

from determined import pytorch
from determined.pytorch import samplers
from determined.pytorch.data.closed_form import ShuffleSampler
from determined.pytorch.data.loader import order_by_seed


class Walked:
    """Batches or items whose next element is only found by iteration; counts how many were read."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)
        self.given = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            self.given += 1
            yield item

    def __len__(self) -> int:
        return len(self.items)


class WithoutLength:
    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def first(iterable: Iterable[Any], n: int) -> list[Any]:
    return list(itertools.islice(iter(iterable), n))


B0, B1, B2, B3 = [0, 1, 2], [3, 4, 5], [6, 7, 8], [9]


def ten_records(drop_last: bool, walk: bool) -> Any:
    known = BatchSampler(SequentialSampler(range(10)), 3, drop_last)
    return Walked(known) if walk else known


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize(
    ("drop_last", "options", "expected", "lengths"),
    [
        (False, {"repeat": True, "skip": 1}, [[B2, B0, B2, B0], [B3, B1, B3, B1]], [2, 2]),
        (True, {}, [[B0, B2], [B1]], [2, 1]),
        (True, {"repeat": True}, [[B0, B2, B1, B0], [B1, B0, B2, B1]], [2, 1]),
    ],
)
def test_adapting_deals_out_the_batches_of_all_passes(
    walk: bool, drop_last: bool, options: dict[str, Any], expected: list[Any], lengths: list[int]
) -> None:
    for rank in range(2):
        adapted = pytorch.adapt_batch_sampler(ten_records(drop_last, walk), num_replicas=2, rank=rank, **options)
        assert first(adapted, len(expected[rank])) == expected[rank]
        assert len(adapted) == lengths[rank]


def test_adapting_without_anything_to_do_returns_the_sampler_itself() -> None:
    sampler = BatchSampler(SequentialSampler(range(4)), 2, False)
    assert pytorch.adapt_batch_sampler(sampler) is sampler


def test_adapting_nests_repeat_in_shard_in_skip() -> None:
    sampler = BatchSampler(SequentialSampler(range(4)), 2, False)
    adapted = pytorch.adapt_batch_sampler(sampler, repeat=True, skip=3, num_replicas=2, rank=1)
    assert isinstance(adapted, samplers.SkipBatchSampler)
    assert (adapted.skip, adapted.length) == (3, 1)
    assert isinstance(adapted.batch_sampler, samplers.DistributedBatchSampler)
    assert (adapted.batch_sampler.num_workers, adapted.batch_sampler.rank) == (2, 1)
    assert isinstance(adapted.batch_sampler.batch_sampler, samplers.RepeatBatchSampler)
    assert adapted.batch_sampler.batch_sampler.batch_sampler is sampler


@pytest.mark.parametrize(
    ("records", "passes"),
    [
        (5, [[0, 4, 1, 2, 3], [2, 0, 1, 3, 4]]),
        (10, [[2, 0, 8, 3, 4, 5, 1, 9, 6, 7], [4, 6, 9, 1, 3, 0, 5, 2, 7, 8]]),
    ],
)
def test_reproducible_shuffle_is_that_of_the_old_releases(records: int, passes: list[list[int]]) -> None:
    sampler = samplers.ReproducibleShuffleSampler(range(records), 777)
    assert [list(sampler), list(sampler)] == passes
    assert len(sampler) == records

    batches = samplers.ReproducibleShuffleBatchSampler([[i] for i in range(records)], 777)
    assert [list(batches), list(batches)] == [[[i] for i in one] for one in passes]

    repeated = samplers.RepeatSampler(samplers.ReproducibleShuffleSampler(range(records), 777))
    assert first(repeated, 2 * records) == passes[0] + passes[1]


def test_repeat_iterates_the_inner_sampler_again_each_pass() -> None:
    inner = Walked([1, 2])
    repeated = samplers.RepeatSampler(inner)
    assert len(repeated) == 2
    iterator = iter(repeated)
    assert [next(iterator) for _ in range(4)] == [1, 2, 1, 2]
    assert inner.given == 4, "the next pass is not begun early"


@pytest.mark.parametrize("inner", [[], SequentialSampler([]), BatchSampler(SequentialSampler([]), 2, False)])
def test_repeating_nothing_is_an_error_and_no_hang(inner: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        next(iter(samplers.RepeatBatchSampler(inner)))


def test_distributed_samplers_share_out_round_robin() -> None:
    for count in (1, 2, 3, 7):
        shards = [samplers.DistributedSampler(range(5), count, rank) for rank in range(count)]
        assert [list(shard) for shard in shards] == [list(range(rank, 5, count)) for rank in range(count)]
        assert [len(shard) for shard in shards] == [len(range(rank, 5, count)) for rank in range(count)]


@pytest.mark.parametrize("inner", [range(6), SequentialSampler(range(6)), ShuffleSampler(range(6), seed=1)])
@pytest.mark.parametrize("rank", [-1, 2, 5])
def test_a_bad_rank_of_distributed_sampler_yields_nothing(inner: Any, rank: int) -> None:
    assert list(samplers.DistributedSampler(inner, 2, rank)) == []


@pytest.mark.parametrize(("count", "rank"), [(2, -1), (0, 0), (-1, 0), (2, 2), (2, 5)])
def test_distributed_batch_sampler_refuses_bad_numbers(count: int, rank: int) -> None:
    with pytest.raises(ValueError, match=r"rank|num_workers"):
        samplers.DistributedBatchSampler([[0]], count, rank)


def test_distributed_batch_sampler_takes_both_names_of_its_second_argument() -> None:
    batches = [[0], [1], [2]]
    assert list(samplers.DistributedBatchSampler(batches, num_workers=2, rank=1)) == [[1]]
    assert list(samplers.DistributedBatchSampler(batches, num_replicas=2, rank=1)) == [[1]]
    assert list(samplers.DistributedBatchSampler(batches, 2, 1)) == [[1]]


@pytest.mark.parametrize("inner", [list(range(5)), SequentialSampler(range(5))])
def test_skip_skips_each_time_and_keeps_its_length(inner: Any) -> None:
    sampler = samplers.SkipSampler(inner, 2)
    assert list(sampler) == [2, 3, 4]
    assert list(sampler) == [2, 3, 4]
    assert len(sampler) == 5
    assert list(samplers.SkipSampler(inner, 9)) == []
    assert list(samplers.SkipSampler(inner, 0)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("same_length", "length"), [(None, 3), (True, 3), (False, 1)])
def test_skip_batch_sampler_takes_the_old_third_argument(same_length: bool | None, length: int) -> None:
    sampler = samplers.SkipBatchSampler([[0], [1], [2]], 2, same_length)
    assert list(sampler) == [[2]]
    assert (len(sampler), sampler.length, sampler.skip) == (length, length, 2)


def test_a_batch_sampler_without_length_can_be_skipped_sharded_and_repeated() -> None:
    batches = WithoutLength([[0], [1], [2]])
    adapted = pytorch.adapt_batch_sampler(batches, repeat=True, skip=1, num_replicas=2, rank=0)
    assert first(adapted, 3) == [[2], [1], [0]]
    with pytest.raises(TypeError):
        len(adapted)


def test_old_names_are_at_the_top_of_the_package() -> None:
    for name in ("RepeatBatchSampler", "DistributedBatchSampler", "SkipBatchSampler"):
        assert getattr(pytorch, name) is getattr(samplers, name)


def test_skipping_far_takes_no_time_where_positions_are_known() -> None:
    """A resume in pass 10**9 must not shuffle or walk through the passes before."""
    for inner in (SequentialSampler(range(100)), ShuffleSampler(range(100), seed=3)):
        batches = BatchSampler(inner, 10, False)
        far = pytorch.adapt_batch_sampler(batches, repeat=True, skip=10**10, num_replicas=2, rank=1)
        near = pytorch.adapt_batch_sampler(batches, repeat=True, skip=0, num_replicas=2, rank=1)
        if isinstance(inner, SequentialSampler):
            assert first(far, 5) == first(near, 5)
        records = sorted(record for batch in first(far, 5) for record in batch)
        assert len(records) == 50 == len(set(records))


def test_seeded_shuffle_is_decided_by_seed_and_pass() -> None:
    def passes(seed: int) -> list[list[int]]:
        stream = first(samplers.RepeatSampler(ShuffleSampler(range(20), seed)), 60)
        return [stream[:20], stream[20:40], stream[40:]]

    assert passes(5) == passes(5)
    assert passes(5) != passes(6)
    assert all(sorted(one) == list(range(20)) for one in passes(5))
    assert len({tuple(one) for one in passes(5)}) == 3


def test_samplers_can_be_pickled() -> None:
    adapted = pytorch.adapt_batch_sampler(
        BatchSampler(ShuffleSampler(range(7), 2), 2, False), repeat=True, skip=2, num_replicas=2, rank=1
    )
    assert first(pickle.loads(pickle.dumps(adapted)), 9) == first(adapted, 9)


class OnePass:
    """Pass p of a seeded shuffle as plain lists, the expected result of the arithmetic."""

    def __init__(self, records: int, batch: int, drop_last: bool, seed: int | None) -> None:
        self.records, self.batch, self.drop_last, self.seed = records, batch, drop_last, seed
        self.passes = 0

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self.records))
        if self.seed is not None:
            order = ShuffleSampler(order, self.seed).permutation(self.seed, self.passes).tolist()
        self.passes += 1
        batches = [order[at : at + self.batch] for at in range(0, self.records, self.batch)]
        return iter(batches[:-1] if self.drop_last and len(batches[-1]) < self.batch else batches)

    def __len__(self) -> int:
        return self.records // self.batch + (not self.drop_last and self.records % self.batch > 0)


runs = st.fixed_dictionaries(
    {
        "records": st.integers(1, 30),
        "batch": st.integers(1, 8),
        "drop_last": st.booleans(),
        "ranks": st.integers(1, 5),
        "resume_at": st.integers(0, 40),
        "epochs": st.integers(1, 4),
        "seed": st.none() | st.integers(0, 2**40),
    }
)


@settings(max_examples=200)
@given(runs)
def test_union_over_ranks_is_the_uninterrupted_stream(run: dict[str, Any]) -> None:
    loader = pytorch.DataLoader(
        range(run["records"]), run["batch"], shuffle=run["seed"] is not None, drop_last=run["drop_last"]
    )
    if run["seed"] is not None:
        order_by_seed(loader, run["seed"])
    plain = OnePass(run["records"], run["batch"], run["drop_last"], run["seed"])
    if not len(plain):
        return
    ranks, total = run["ranks"], run["epochs"] * len(plain)
    per_rank = -(-total // ranks)
    resume_at = min(run["resume_at"], per_rank)
    # The stream, as one process would read it from the very beginning.
    stream = list(itertools.islice(itertools.chain.from_iterable(iter(plain) for _ in itertools.count()), total))

    def adapted(sampler: Any, rank: int, skip: int, count: int) -> list[Any]:
        return first(pytorch.adapt_batch_sampler(sampler, True, skip, ranks, rank), count)

    united: list[Any] = [None] * (per_rank * ranks)
    for rank in range(ranks):
        before = adapted(loader.batch_sampler, rank, 0, resume_at)
        after = adapted(loader.batch_sampler, rank, resume_at, per_rank - resume_at)
        united[rank::ranks] = before + after
        walked = OnePass(run["records"], run["batch"], run["drop_last"], run["seed"])
        assert after == adapted(walked, rank, resume_at, per_rank - resume_at)
    assert united[:total] == stream
    if run["epochs"] == 1 and not run["drop_last"]:
        assert sorted(record for batch in stream for record in batch) == list(range(run["records"]))


@settings(max_examples=100)
@given(runs)
def test_without_repeat_shards_are_disjoint_and_complete(run: dict[str, Any]) -> None:
    ranks = run["ranks"]
    loader = pytorch.DataLoader(range(run["records"]), run["batch"], drop_last=run["drop_last"])
    shards = []
    for rank in range(ranks):
        adapted = pytorch.adapt_batch_sampler(loader.batch_sampler, num_replicas=ranks, rank=rank)
        shards.append(list(adapted))
        assert len(adapted) == len(shards[-1])
    together = sorted(batch for shard in shards for batch in shard)
    assert together == list(BatchSampler(SequentialSampler(range(run["records"])), run["batch"], run["drop_last"]))


def test_layers_over_records_compose_as_taught() -> None:
    """Shuffle, repeat, shard, batch, skip: the stack that computes positions and the iterated one agree."""

    def stack(inner: Any, rank: int) -> list[list[int]]:
        records = samplers.DistributedSampler(samplers.RepeatSampler(inner), 2, rank)
        return first(samplers.SkipBatchSampler(BatchSampler(records, 3, False), 1), 6)

    for rank in range(2):
        assert stack(SequentialSampler(range(7)), rank) == stack(Walked(range(7)), rank)
    flat = [r for rank in range(2) for batch in stack(ShuffleSampler(range(7), 4), rank) for r in batch]
    assert len(flat) == 36


def test_unseeded_shuffle_draws_from_the_global_generator() -> None:
    sampler = ShuffleSampler(range(30))
    torch.manual_seed(1)
    one, two = list(sampler), list(sampler)
    torch.manual_seed(1)
    assert [one, two] == [list(sampler), list(sampler)]
    assert one != two
    torch.manual_seed(2)
    assert list(sampler) != one
