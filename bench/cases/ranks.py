"""Two ranks over gloo: CPU time compared with bare DDP, and collectives besides the exchange of gradients."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bench.measure import Effort, Pairs, Summary, in_children, summarize
from bench.table import Row, at_most

RANKS = 2
CASE = "2 ranks over gloo, tiny MLP"
OURS, AGAIN = "determined", "bare DDP again"
COUNT_CASE = "2 ranks: collectives beside backward's"


def two_ranks(effort: Effort) -> list[Row]:
    """Measure the CPU time of both ranks together compared with bare DDP, and that of bare DDP compared with itself."""
    own = _compared(effort, OURS)
    again = _compared(effort, AGAIN)
    return [
        Row(CASE, "bare DDP", us=own.bare_us, ratio=1.0, note="of one rank"),
        at_most(Row.of_summary(CASE, OURS, own, "of one rank"), 1.03),
        Row.of_summary(CASE, AGAIN, again, "how far chance goes"),
    ]


def _compared(effort: Effort, who: str) -> Summary:
    """Return the CPU time of a contender compared with bare DDP, as the mean over the ranks."""
    results = []
    for seed in range(effort.processes):
        ranks = _run("measure", {"block": effort.block, "pairs": effort.pairs, "seed": seed, "who": who})
        # All ranks take their turns in the same order: the n-th pairs belong together.
        own, bare = (
            [sum(times) / RANKS for times in zip(*(rank[side] for rank in ranks), strict=True)]
            for side in ("own", "bare")
        )
        results.append(Pairs(own, bare))
    return summarize(Pairs.together(results))


def collectives(effort: Effort) -> list[Row]:
    """Count collectives besides those of backward, in 300 batches with a report every 100, and in 300 without one."""
    batches, every = 300, 100
    with_reports, without = (
        _run("count", {"batches": batches, "report_every": report_every})[0] for report_every in (every, 1_000_000)
    )
    a_batch = _beside_backward(without) / batches
    a_report = (_beside_backward(with_reports) - _beside_backward(without)) / (batches // every)
    return [
        Row(
            COUNT_CASE,
            "determined",
            must_be="0 and 1",
            ok=a_batch == 0 and a_report == 1,
            note=f"{a_batch:g} a batch, {a_report:g} a report",
            detail={"batches": batches, "with_reports": with_reports, "without": without},
        )
    ]


def _beside_backward(counts: dict[str, dict[str, int]]) -> int:
    return sum(counts["own"].values()) - sum(counts["bare"].values())


def _run(function: str, arguments: dict[str, Any]) -> list[Any]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environments = [
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(RANKS),
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        for rank in range(RANKS)
    ]
    return in_children(f"bench.cases.ranks:{function}", [dict(arguments)] * RANKS, environments=environments)


def _joined() -> tuple[Callable[[Iterable[Any]], None], Callable[[], None]]:
    """Join the process group, which our loop uses as well; return the bare DDP loop, and the function to leave it."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    from bench import work

    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    models = [DistributedDataParallel(work.make_model("mlp"))]
    optimizer = work.make_optimizer(models[0])

    def leave() -> None:
        """Leave the process group without a reference to it, or torch may abort the process at its exit."""
        models.clear()
        distributed.destroy_process_group()

    return lambda batches: work.train(models[0], optimizer, batches), leave


def measure(*, block: int, pairs: int, seed: int, who: str) -> dict[str, Any]:
    """In each rank: measure pairs of blocks."""
    from bench import ours, work
    from bench.measure import Turns, as_json

    bare, leave = _joined()
    turns = Turns(work.make_batches("mlp", block), bare, pairs, seed=seed)
    if who == AGAIN:
        bare(turns)
    else:
        ours.train(work.make_model("mlp"), turns, len(turns))
    leave()
    return as_json(turns.result)


def count(*, batches: int, report_every: int) -> dict[str, dict[str, int]]:
    """In each rank: count the operations of gloo in `batches` batches of ours, and of the bare loop, by torch's
    profiler.
    """
    from torch.profiler import ProfilerActivity, profile

    from bench import ours, work

    bare, leave = _joined()
    data = work.make_batches("mlp", batches)
    seen: dict[str, dict[str, int]] = {}

    def profiled() -> Any:
        return profile(activities=[ProfilerActivity.CPU])

    def counts(profiler: Any) -> dict[str, int]:
        names = (event.name for event in profiler.events())
        return dict(Counter(name for name in names if name.startswith("gloo:")))

    class Feed:
        def __iter__(self) -> Iterator[Any]:
            with profiled() as own:
                yield from data
            seen["own"] = counts(own)
            yield data[0]

        def __len__(self) -> int:
            return batches + 1

    with profiled() as alone:
        bare(data)
    seen["bare"] = counts(alone)
    ours.train(work.make_model("mlp"), Feed(), batches + 1, report_every=report_every)
    leave()
    return seen
