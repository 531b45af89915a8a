"""Validation of many tiny batches with three metrics."""

from __future__ import annotations

from typing import Any

from bench.measure import Effort, pairs_in_children, summarize
from bench.table import Row, at_most


def validation(effort: Effort) -> list[Row]:
    """Compare with a loop that computes the metrics and drops them, and with one that averages them."""
    case = f"validation, {effort.validation_batches:,} tiny batches, 3 metrics"
    arguments = {"batches": effort.validation_batches, "times": effort.validations}
    hardest, averaging = (
        summarize(pairs_in_children("bench.cases.validating:measure", {**arguments, "keep": keep}, effort.processes))
        for keep in (False, True)
    )
    return [
        Row(case, "bare loop", us=averaging.bare_us, ratio=1.0, note="averages the metrics, as we do"),
        at_most(Row.of_summary(case, "determined", averaging), 1.08),
        Row(case, "bare, no result", us=hardest.bare_us, ratio=1.0, note="drops the metrics"),
        Row.of_summary(case, "determined", hardest, "beside one without a result"),
    ]


def measure(*, batches: int, times: int, keep: bool, seed: int) -> dict[str, Any]:
    """In a separate process: complete validations and the bare loop in turns."""
    import gc
    import random
    import time

    import torch

    from bench import ours, work
    from bench.measure import Pairs, as_json

    torch.set_num_threads(1)
    data = work.make_batches("mlp", batches)
    model, bare_model = work.make_model("mlp"), work.make_model("mlp")
    bare_validate = work.validate_and_average if keep else work.validate
    rng, result = random.Random(seed), Pairs([], [])
    started, bare_first = 0.0, False

    def bare() -> None:
        start = time.process_time()
        bare_validate(bare_model, data)
        result.bare.append((time.process_time() - start) / batches)

    def before() -> None:
        nonlocal started, bare_first
        bare_first = rng.random() < 0.5
        if bare_first:
            bare()
        started = time.process_time()

    def after() -> None:
        result.own.append((time.process_time() - started) / batches)
        if not bare_first:
            bare()

    gc.collect()
    gc.disable()
    ours.validate_many(model, data, times + 1, before=before, after=after)
    # The first pair warms up; after the last batch a block of the bare loop may have no partner.
    return as_json(Pairs(result.own[1 : times + 1], result.bare[1 : times + 1]))
