"""How long a large checkpoint blocks training, and until it is durable, compared with a plain `torch.save`."""

from __future__ import annotations

import statistics
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row, at_most

STILL = 0.15
DURABLE = 1.3
PERIOD = 8  # batches


def checkpointing(effort: Effort) -> list[Row]:
    """A model with Adam: two thirds of the checkpoint are the optimizer's. Wall-clock seconds."""
    seconds = in_child(
        "bench.cases.checkpointing:measure",
        {"checkpoints": effort.checkpoints, "megabytes": effort.checkpoint_megabytes},
    )
    case = f"checkpoint of {effort.checkpoint_megabytes} MB"
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    batch = middle["batch"]
    after = middle["batches after"] - 3 * batch
    synced = middle["torch.save, synced"]
    return [
        Row(case, "torch.save", us=middle["torch.save"] * 1e6, note=f"not synced; with a sync {synced * 1e3:,.0f} ms"),
        _row(case, "determined: training stands still", seconds["still"], seconds["torch.save"], STILL),
        _row(case, "determined: until it is durable", seconds["durable"], seconds["torch.save"], DURABLE),
        Row(
            case,
            "determined: the three batches after it",
            us=middle["batches after"] * 1e6,
            note=f"{after * 1e3:+.0f} ms to three others of {batch * 1e3:.0f} ms: memory is copied, a core is shared",
            detail=seconds,
        ),
    ]


def _row(case: str, who: str, own: list[float], plain: list[float], limit: float) -> Row:
    ratios = sorted(one / other for one, other in zip(own, plain, strict=True))
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    row = Row(case, who, us=statistics.median(own) * 1e6, ratio=statistics.median(ratios), low=low, high=high)
    return at_most(row, limit)


def measure(*, checkpoints: int, megabytes: int) -> dict[str, list[float]]:
    """In a separate process: one `fit`, with a `torch.save` of the same state between two checkpoints.

    All files are kept to the end, so that each is written into memory that the system has to allocate.
    """
    import logging
    import os
    import threading
    import time

    import torch

    from determined import pytorch

    width = int((megabytes * 2**20 / 12) ** 0.5)
    stored, stored_at = threading.Event(), [0.0]

    class Announced(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("stored checkpoint"):
                stored_at[0] = time.perf_counter()
                stored.set()

    logging.getLogger("determined.core").setLevel(logging.DEBUG)
    logging.getLogger("determined.core").addHandler(Announced())

    names = ("still", "durable", "batch", "batches after", "torch.save", "torch.save, synced")
    seconds: dict[str, list[float]] = {name: [] for name in names}

    class Trial(pytorch.PyTorchTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            self.context = context
            context.experimental.disable_dataset_reproducibility_checks()
            self.model = context.wrap_model(torch.nn.Linear(width, width, bias=False))
            self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters()))
            self.ended = 0.0
            self.boundary = 0.0  # an ordinary one, with its report
            self.saved_at = 0.0

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            began, number = time.perf_counter(), batch_idx % PERIOD
            counted = batch_idx > 2 * PERIOD - 1  # the first checkpoint warms up
            if number == PERIOD - 1:
                self.boundary = began - self.ended
            if number == 0 and counted:
                seconds["still"].append(began - self.ended - self.boundary)
                self.saved_at = self.ended
            if number == 4 and batch_idx > PERIOD:
                stored.wait()
                stored.clear()
                if counted:
                    seconds["durable"].append(stored_at[0] - self.saved_at)
                    self.save()
                began = time.perf_counter()
            loss = self.model(batch).square().mean()
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            self.ended = time.perf_counter()
            if number == PERIOD - 1 and counted:
                seconds["batch"].append(self.ended - began)
            if number == 2 and counted:
                seconds["batches after"].append(self.ended - self.saved_at - seconds["still"][-1])
            return {"loss": loss}

        def save(self) -> None:
            start = time.perf_counter()
            name = f"plain-{len(seconds['torch.save'])}.pth"
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, name)
            seconds["torch.save"].append(time.perf_counter() - start)
            with open(name, "rb") as file:
                os.fsync(file.fileno())
            seconds["torch.save, synced"].append(time.perf_counter() - start)

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return {"nothing": 0.0}

        def build_training_data_loader(self) -> Any:
            return [torch.ones(1, width)] * ((checkpoints + 1) * PERIOD + 5)

        def build_validation_data_loader(self) -> Any:
            return [torch.ones(1, width)]

    with pytorch.init() as context:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Batch((checkpoints + 1) * PERIOD + 5),
            checkpoint_period=pytorch.Batch(PERIOD),
            reporting_period=pytorch.Batch(1),
            checkpoint_policy="none",
        )
    return seconds
