"""Data loading in the training process: our DataLoader compared with torch's, and the sampler of many ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import Effort, Summary, in_child, pairs_in_children, summarize
from bench.table import Row, at_least

BATCH_SIZE = 32
SAMPLER_RANKS = 64
SAMPLER_LIMIT = 35.0

KINDS = {
    "records": ("data loading, __getitem__ of tensors", 1.0),
    "numbers": ("data loading, __getitem__, number as label", 1.0),
    "many": ("data loading, __getitems__, records collated", 1.3),
    "ready": ("data loading, __getitems__, ready batches", 1.3),
}


def loading(effort: Effort) -> list[Row]:
    """Measure the rate of our DataLoader divided by that of torch's, both shuffling."""
    rows = []
    for kind, (case, limit) in KINDS.items():
        arguments = {"kind": kind, "batches": max(2, effort.block // 2), "pairs": effort.pairs}
        result = summarize(pairs_in_children("bench.cases.loading:measure", arguments, effort.processes))
        rate = Summary(result.own_us, result.bare_us, 1 / result.ratio, 1 / result.high, 1 / result.low, result.pairs)
        rows.append(Row(case, "torch DataLoader", us=result.bare_us, ratio=1.0, note="ratio: of rates"))
        rows.append(at_least(Row.of_summary(case, "determined", rate), limit))
    return rows


def sampler(effort: Effort) -> list[Row]:
    """Measure the index lists of one of 64 ranks, shuffled, over complete passes."""
    case = f"sampler at {SAMPLER_RANKS} ranks"
    us = in_child("bench.cases.loading:measure_sampler", {"records": effort.sampler_records})
    return [
        Row(case, "torch DistributedSampler", us=us["torch"]),
        Row(
            case,
            "determined",
            us=us["own"],
            must_be=f"<= {SAMPLER_LIMIT:.0f} us",
            ok=us["own"] <= SAMPLER_LIMIT,
            note=f"of {effort.sampler_records:,} records",
            detail={"batch_size": BATCH_SIZE},
        ),
    ]


def _data_set(kind: str) -> tuple[Any, Callable[[Any], Any] | None]:
    import torch

    x, y = torch.randn(4096, 16), torch.randint(4, (4096,))
    numbers = y.tolist()

    class Records(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, index: int) -> Any:
            return x[index], y[index]

    class Numbers(Records):
        def __getitem__(self, index: int) -> Any:
            return x[index], numbers[index]

    class Many(Records):
        def __getitems__(self, indices: list[int]) -> Any:
            return list(zip(x[indices].unbind(), y[indices].unbind(), strict=True))

    class Ready(Records):
        def __getitems__(self, indices: list[int]) -> Any:
            return x[indices], y[indices]

    data_sets: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {
        "records": (Records(), None),
        "numbers": (Numbers(), None),
        "many": (Many(), None),
        "ready": (Ready(), lambda batch: batch),
    }
    return data_sets[kind]


def measure(*, kind: str, batches: int, pairs: int, seed: int) -> dict[str, Any]:
    """In a separate process: our loader, as the loop uses it, and torch's in turns."""
    import itertools

    import torch

    from bench.measure import alternate, as_json
    from determined import pytorch
    from determined.pytorch.data.loader import load_sharded, order_by_seed, shard
    from determined.pytorch.data.position import DataPosition

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    data_set, collate = _data_set(kind)
    options: dict[str, Any] = {"batch_size": BATCH_SIZE, "shuffle": True, "collate_fn": collate}
    ours = pytorch.DataLoader(data_set, **options)
    order_by_seed(ours, seed)
    plain = torch.utils.data.DataLoader(data_set, **options)

    def over_and_over() -> Iterator[Any]:
        while True:
            yield from plain

    own_iterator, plain_iterator = iter(load_sharded(ours, shard(ours, DataPosition(), 1, 0))), over_and_over()

    def take(iterator: Iterator[Any]) -> int:
        for _ in itertools.islice(iterator, batches):
            pass
        return batches

    return as_json(alternate(lambda: take(own_iterator), lambda: take(plain_iterator), pairs, seed=seed))


def measure_sampler(*, records: int) -> dict[str, float]:
    """In a separate process: microseconds a batch, including the permutations of the passes."""
    import itertools
    import statistics
    import time

    import torch
    from torch.utils.data import BatchSampler, DistributedSampler

    from determined import pytorch
    from determined.pytorch.data.loader import load_sharded, order_by_seed, shard
    from determined.pytorch.data.position import DataPosition

    torch.set_num_threads(1)
    data_set: Any = range(records)
    batches = records // BATCH_SIZE // SAMPLER_RANKS  # of one rank in a pass
    ours = pytorch.DataLoader(data_set, batch_size=BATCH_SIZE, shuffle=True)
    order_by_seed(ours, 1)
    loader = load_sharded(ours, shard(ours, DataPosition(), SAMPLER_RANKS, 3))
    own = iter(loader.batch_sampler)  # type: ignore[arg-type]
    torch_sampler: Any = DistributedSampler(data_set, num_replicas=SAMPLER_RANKS, rank=3)
    plain = BatchSampler(torch_sampler, BATCH_SIZE, drop_last=True)

    def own_pass() -> None:
        for _ in itertools.islice(own, batches):
            pass

    def torch_pass(number: int) -> None:
        torch_sampler.set_epoch(number)
        for _ in plain:
            pass

    times: dict[str, list[float]] = {"own": [], "torch": []}
    own_pass()
    for number in range(9):
        start = time.process_time()
        own_pass()
        middle = time.process_time()
        torch_pass(number)
        times["own"].append((middle - start) / batches)
        times["torch"].append((time.process_time() - middle) / batches)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}
