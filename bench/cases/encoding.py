"""Time to traverse the state of a trial: the check before training, and the first step of every save."""

from __future__ import annotations

import statistics
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row, at_most

SHARE = 0.25  # of a torch.save into memory
LAYERS = 500


def encoding(effort: Effort) -> list[Row]:
    """A model of many small layers with Adam, because the time depends on the number of values, not on their size."""
    seconds = in_child("bench.cases.encoding:measure", {"times": 5 * effort.checkpoints})
    case = f"state of {LAYERS * 2} parameters and Adam"
    return [
        Row(case, "torch.save into memory", us=statistics.median(seconds["torch.save"]) * 1e6),
        _row(case, "determined: check before training", seconds["check"], seconds["torch.save"]),
        _row(case, "determined: encode for a checkpoint", seconds["encode"], seconds["torch.save"]),
    ]


def _row(case: str, who: str, own: list[float], plain: list[float]) -> Row:
    ratios = sorted(one / other for one, other in zip(own, plain, strict=True))
    low, _, high = statistics.quantiles(ratios, n=4)
    row = Row(case, who, us=statistics.median(own) * 1e6, ratio=statistics.median(ratios), low=low, high=high)
    return at_most(row, SHARE)


def measure(*, times: int) -> dict[str, list[float]]:
    """In a separate process, in turns; seconds of CPU time."""
    import io
    import time
    from collections.abc import Callable

    import torch

    from determined import pytorch
    from determined.pytorch.callbacks import Callbacks
    from determined.pytorch.checkpoint.trial_states import TrialStates

    torch.set_num_threads(1)
    context = pytorch.CheckpointLoadContext()
    model = context.wrap_model(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(LAYERS))))
    optimizer = context.wrap_optimizer(torch.optim.Adam(model.parameters()))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    states = TrialStates(context, Callbacks({}), None)

    def save() -> Any:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())

    actions: dict[str, Callable[[], Any]] = {
        "torch.save": save,
        "check": states.check,
        "encode": lambda: states.encode(states.take()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(times + 1):
        for name, action in actions.items():
            began = time.process_time()
            action()
            if number:  # the first warms up
                seconds[name].append(time.process_time() - began)
    return seconds
