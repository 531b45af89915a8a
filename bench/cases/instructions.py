"""Instructions of a batch, as callgrind counts them: the number that other programs on the machine cannot change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from bench.measure import Effort, instructions, mark, slow_clock, valgrind
from bench.table import Row, at_most

CASE = "tiny MLP, list of batches: instructions"


def mlp_instructions(effort: Effort) -> list[Row]:
    """Tiny MLP under callgrind: one run of a few minutes."""
    if valgrind() is None:
        return [Row(CASE, "determined", must_be="<= 1.03", note="valgrind is not installed")]
    count = effort.instructions
    bare, own = (total / count for total in instructions("bench.cases.instructions:train", {"count": count}))
    return [
        Row(CASE, "bare loop", ratio=1.0, note=f"{bare:,.0f} a batch", detail={"instructions": bare}),
        at_most(
            Row(CASE, "determined", ratio=own / bare, note=f"{own:,.0f} a batch", detail={"instructions": own}),
            1.03,
        ),
    ]


def train(*, count: int, report_every: int = 100) -> None:
    """In a separate process: `count` batches of the bare loop, then `count` of ours, with marks around them."""
    import torch

    from bench import ours, work

    slow_clock()
    torch.set_num_threads(1)
    warm_up = 100
    bare_model = work.make_model("mlp")
    bare_optimizer = work.make_optimizer(bare_model)
    batches = work.make_batches("mlp", max(count, warm_up))

    def blocks() -> Iterator[Any]:
        work.train(bare_model, bare_optimizer, batches[:warm_up])
        yield batches[:warm_up]
        mark()
        work.train(bare_model, bare_optimizer, batches[:count])
        mark()
        yield batches[:count]
        mark()
        yield batches[:1]

    class Feed:
        def __iter__(self) -> Iterator[Any]:
            return itertools.chain.from_iterable(blocks())

        def __len__(self) -> int:
            return warm_up + count + 1

    ours.train(work.make_model("mlp"), Feed(), len(Feed()), report_every=report_every)
