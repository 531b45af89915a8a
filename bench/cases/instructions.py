"""Instructions of a batch, as callgrind counts them: the number that a busy machine cannot change."""

from __future__ import annotations

from bench.measure import Effort, in_child, instructions, slow_clock, valgrind
from bench.table import Row, at_most

CASE = "tiny MLP, list of batches: instructions"


def mlp_instructions(effort: Effort) -> list[Row]:
    """Tiny MLP under callgrind; four runs, each of which takes a minute or two."""
    if valgrind() is None:
        return [Row(CASE, "determined", must_be="<= 1.03", note="valgrind is not installed")]
    few, many = effort.instructions
    per_batch = {}
    for who in ("bare loop", "determined"):
        in_child("bench.cases.instructions:train", {"who": who, "count": 1})  # sources are compiled from here on
        totals = [instructions("bench.cases.instructions:train", {"who": who, "count": count}) for count in (few, many)]
        per_batch[who] = (totals[1] - totals[0]) / (many - few)
    bare, own = per_batch["bare loop"], per_batch["determined"]
    return [
        Row(CASE, "bare loop", ratio=1.0, note=f"{bare:,.0f} a batch"),
        at_most(Row(CASE, "determined", ratio=own / bare, note=f"{own:,.0f} a batch"), 1.03),
    ]


def train(*, who: str, count: int, report_every: int = 100) -> None:
    """In a process of its own: train `count` batches."""
    import torch

    from bench import work

    slow_clock()
    torch.set_num_threads(1)
    model, batches = work.make_model("mlp"), work.make_batches("mlp", count)
    if who == "bare loop":
        work.train(model, work.make_optimizer(model), batches)
        return
    from bench import ours

    ours.train(model, batches, count, report_every=report_every)
