"""The training program that is killed: it reports its phase, and waits there for the kill.

With AIM="phase:3" it writes a line when it is in that phase for the third time, and waits for one. Phases inside the
library are reached by wrapping its functions in this process alone.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from determined import pytorch
from determined.checkpoint_storage import files
from determined.core.supervision.checkpoint_records import CheckpointRecords
from determined.pytorch.checkpoint import checkpointer as checkpoint
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint.checkpointer import Checkpointer
from determined.store.databases.sqlite import SqliteDatabase

checkpoint.SMALL = 0  # as for a large model: checkpoints are written in the background

LENGTH = int(os.environ.get("LENGTH", "40"))
CHECKPOINT_PERIOD, VALIDATION_PERIOD, REPORTING_PERIOD = 5, 10, 7
AGGREGATION = 3
SECONDS_A_BATCH = 0.01
RANK = int(os.environ.get("RANK", "0"))
DIRECTORY = Path(os.environ["SOAK_DIRECTORY"])

PHASE, _, NUMBER = os.environ.get("AIM", "nowhere:1").partition(":")


def here(phase: str) -> None:
    """Note that the program is in this phase; called in the middle of it."""
    if phase == PHASE and times_here() == int(NUMBER):
        lose_this_rank()
        os.write(1, f"{phase}\n".encode())
        os.read(0, 1)


def times_here() -> int:
    """Count the times in a file, which forked children share."""
    with open(DIRECTORY / "count", "ab") as file:
        file.write(b".")
        return file.tell()


def lose_this_rank() -> None:
    """With LOSE set, this rank ends or hangs."""
    how = os.environ.get("LOSE")
    if how is None:
        return
    os.write(1, f"{PHASE}\n".encode())
    if how.startswith("exit"):
        os._exit(int(how.removeprefix("exit")))
    if how == "exception":
        raise RuntimeError("something of the program's own went wrong")
    os.kill(os.getpid(), signal.Signals[how])


def announce_phases_of_the_library() -> None:
    write, sync_tree = checkpoint_format.write, files.sync_tree
    report_checkpoint, insert, save = CheckpointRecords.report, SqliteDatabase.insert, Checkpointer.save

    def write_in_halves(state: dict[str, Any], file: Path) -> str:
        digest = write(state, file)
        if PHASE == "write":
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) // 2])
            here("write")
            file.write_bytes(whole)
        return digest

    def sync_late(root: Path, flushed: Path | None = None) -> None:
        here("written")
        sync_tree(root, flushed)

    def report_late(self: CheckpointRecords, checkpoint: Any) -> None:
        here("published")
        report_checkpoint(self, checkpoint)

    def insert_slowly(self: SqliteDatabase, into: str, rows: Any, on_conflict: str) -> None:
        insert(self, into, rows, on_conflict)
        here("report")  # the transaction is open

    def save_late(self: Checkpointer, *args: Any, **options: Any) -> None:
        here("saving")
        save(self, *args, **options)

    checkpoint_format.write = write_in_halves
    files.sync_tree = sync_late
    CheckpointRecords.report = report_late  # type: ignore[method-assign]
    SqliteDatabase.insert = insert_slowly  # type: ignore[method-assign]
    Checkpointer.save = save_late  # type: ignore[method-assign]


class Records(Dataset[Any]):
    """Each record has its number, and noise from the random generator of the loading process."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        x = torch.arange(4.0) * index / 400 + torch.rand(4) * 0.01 + random.random() * 0.01 + np.random.rand() * 0.01
        return index, x.float(), x.float().sum().unsqueeze(0)


class Sum(pytorch.MetricReducer):
    def __init__(self) -> None:
        self.total = np.zeros(1)

    def reset(self) -> None:
        self.total = np.zeros(1)

    def per_slot_reduce(self) -> float:
        return float(self.total[0])

    def cross_slot_reduce(self, per_slot_metrics: Sequence[float]) -> float:
        return sum(per_slot_metrics)


class Phases(pytorch.PyTorchCallback):
    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        here("startup")

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        here("restore")

    def on_training_start(self) -> None:
        here("training")

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        here("reported")

    def on_trial_shutdown(self) -> None:
        here("shutdown")


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)]
        self.model = context.wrap_model(torch.nn.Sequential(*layers))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.01))
        context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97), pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        )
        self.sum = context.wrap_reducer(Sum(), name="sum")
        self.log = open(DIRECTORY / f"batches-{RANK}.log", "a", buffering=1)  # noqa: SIM115  (as long as training)

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return {"phases": Phases()}

    def data(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Records(), batch_size=8, shuffle=True, num_workers=int(os.environ["WORKERS"]))

    build_training_data_loader = build_validation_data_loader = data

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        time.sleep(SECONDS_A_BATCH)
        indices, x, y = batch
        self.log.write(f"begin {batch_idx} {indices.tolist()} {float(x.double().sum()).hex()}\n")
        noise = torch.randn(()) * random.random() * np.random.rand() * 0.01
        loss = torch.nn.functional.mse_loss(self.model(x + noise), y)
        here("batch")
        self.context.backward(loss)
        if (batch_idx + 1) % AGGREGATION:
            here("aggregation")
        self.context.step_optimizer(self.optimizer)
        self.sum.total[0] += float(x.sum())
        self.log.write(f"end {batch_idx}\n")
        return {"loss": loss, "first": float(x[0, 0])}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        indices, x, y = batch
        done = self.context.current_train_batch() + 1
        self.log.write(f"validate {done} {batch_idx} {indices.tolist()} {float(x.double().sum()).hex()}\n")
        here("validation")
        return {"error": torch.nn.functional.mse_loss(self.model(x) + torch.randn(()) * 0.01, y)}


def main() -> None:
    announce_phases_of_the_library()
    here("begin")
    with pytorch.init(seed=11, aggregation_frequency=AGGREGATION) as context:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Batch(LENGTH),
            checkpoint_period=pytorch.Batch(CHECKPOINT_PERIOD),
            validation_period=pytorch.Batch(VALIDATION_PERIOD),
            reporting_period=pytorch.Batch(REPORTING_PERIOD),
            checkpoint_policy="none",
            latest_checkpoint="latest",
        )


if __name__ == "__main__":
    main()
