"""Training in one process: a tiny model, where overhead shows, and a small convolutional one."""

from __future__ import annotations

from typing import Any

from bench.installed import PEERS, installed
from bench.measure import ChildError, Effort, Turns, as_json, pairs_in_children, summarize
from bench.table import Row, at_most, not_installed

OURS = "determined"
AGAIN = "bare loop again"
CONTENDERS = (OURS, AGAIN, *PEERS)


def mlp_list(effort: Effort) -> list[Row]:
    """Tiny MLP on a list of batches: nothing but the loop."""
    return _rows("tiny MLP, list of batches", effort, 1.05, model="mlp", block=effort.block, loader=False)


def mlp_loader(effort: Effort) -> list[Row]:
    """Tiny MLP through the same torch DataLoader on both sides."""
    return _rows("tiny MLP, torch DataLoader", effort, 1.05, model="mlp", block=effort.block, loader=True)


def cnn(effort: Effort) -> list[Row]:
    """Small CNN on a list of batches."""
    return _rows("small CNN, list of batches", effort, 1.01, model="cnn", block=effort.heavy_block, loader=False)


def _rows(case: str, effort: Effort, limit: float, **work: Any) -> list[Row]:
    rows = []
    for who in CONTENDERS:
        if who in PEERS and not installed(who):
            rows.append(not_installed(case, who))
            continue
        arguments = {**work, "who": who, "pairs": effort.pairs}
        try:
            pairs = pairs_in_children("bench.cases.training:measure", arguments, effort.processes)
        except ChildError as error:
            if who not in PEERS:
                raise
            last = str(error).strip().rpartition("\n")[2]
            cannot_import = last.startswith(("ImportError", "ModuleNotFoundError"))
            rows.append(not_installed(case, who) if cannot_import else Row(case, who, note=f"failed: {last:.60}"))
            continue
        result = summarize(pairs)
        if who == OURS:
            rows.append(Row(case, "bare loop", us=result.bare_us, ratio=1.0))
        row = Row.of_summary(case, who, result, "how far chance goes" if who == AGAIN else "")
        rows.append(at_most(row, limit) if who == OURS else row)
    return rows


def measure(*, who: str, model: str, block: int, pairs: int, loader: bool, seed: int) -> dict[str, Any]:
    """In a separate process: measure the pairs of one contender."""
    import torch

    from bench import ours, peers, work

    torch.set_num_threads(1)
    bare_model = work.make_model(model)
    bare_optimizer = work.make_optimizer(bare_model)
    if loader:
        feed, turns = _through_a_loader(model, block, bare_model, bare_optimizer, pairs, seed)
    else:

        def bare(batches: Any) -> None:
            work.train(bare_model, bare_optimizer, batches)

        feed = turns = Turns(work.make_batches(model, block), bare, pairs, seed=seed)
    if who == AGAIN:
        again = work.make_model(model)
        work.train(again, work.make_optimizer(again), feed)
    else:
        train = ours.train if who == OURS else getattr(peers, PEERS[who][1])
        train(work.make_model(model), feed, len(turns))
    assert len(turns.result.own) == pairs, f"{who} trained {len(turns.result.own)} of {pairs} blocks"
    return as_json(turns.result)


def _through_a_loader(
    model: str, block: int, bare_model: Any, bare_optimizer: Any, pairs: int, seed: int
) -> tuple[Any, Turns]:
    """Return a torch loader whose sampler controls the turns: every contender gets a real loader."""
    import torch

    from bench import work

    batch_size = 16
    x, y = zip(*work.make_batches(model, 50), strict=True)
    records = torch.utils.data.TensorDataset(torch.cat(x), torch.cat(y))
    order = torch.randperm(len(records)).tolist()
    indices = [[order[(i * batch_size + j) % len(order)] for j in range(batch_size)] for i in range(block)]

    def bare(indices: Any) -> None:
        work.train(bare_model, bare_optimizer, torch.utils.data.DataLoader(records, batch_sampler=indices))

    turns = Turns(indices, bare, pairs, seed=seed)
    return torch.utils.data.DataLoader(records, batch_sampler=turns), turns
