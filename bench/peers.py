"""The same training in other libraries, each as its own documentation describes it.

Every function trains `model` on one pass over `batches` and writes the mean loss of every 100 batches to TensorBoard.
Where a library has options, the cheaper one is taken: no progress bar, no checkpoints, no sanity checks; losses are
kept detached and become numbers once per report. Lightning logs by `self.log`, its own method.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench import work


class _Report:
    """Writes the mean loss of the batches since the last report to TensorBoard."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(tempfile.mkdtemp(dir="."))
        self._losses: list[torch.Tensor] = []
        self._batches = 0

    def add(self, loss: torch.Tensor) -> None:
        self._losses.append(loss.detach())
        if len(self._losses) == work.REPORT_EVERY:
            self._batches += len(self._losses)
            self._writer.add_scalar("loss", float(torch.stack(self._losses).mean()), self._batches)
            self._losses.clear()


def fabric(model: nn.Module, batches: Any, count: int) -> None:
    from lightning.fabric import Fabric

    engine = Fabric(accelerator="cpu", devices=1)
    model, optimizer = engine.setup(model, work.make_optimizer(model))
    report = _Report()
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        engine.backward(loss)
        optimizer.step()
        report.add(loss)


def accelerate(model: nn.Module, batches: Any, count: int) -> None:
    from accelerate import Accelerator

    engine = Accelerator(cpu=True)
    model, optimizer = engine.prepare(model, work.make_optimizer(model))
    if isinstance(batches, torch.utils.data.DataLoader):
        batches = engine.prepare_data_loader(batches)
    report = _Report()
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        engine.backward(loss)
        optimizer.step()
        report.add(loss)


def ignite(model: nn.Module, batches: Any, count: int) -> None:
    from ignite.engine import Engine

    optimizer = work.make_optimizer(model)
    report = _Report()

    def step(engine: Engine, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        x, y = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        report.add(loss)
        return loss

    Engine(step).run(batches, max_epochs=1, epoch_length=count)


def lightning(model: nn.Module, batches: Any, count: int) -> None:
    from lightning import LightningModule, Trainer
    from lightning.pytorch.loggers import TensorBoardLogger

    class Module(LightningModule):  # type: ignore[misc]  # the package may be missing
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Sequence[torch.Tensor], batch_idx: int) -> torch.Tensor:
            x, y = batch
            loss = F.cross_entropy(self.model(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return work.make_optimizer(self.model)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        log_every_n_steps=work.REPORT_EVERY,
        logger=TensorBoardLogger("."),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    ).fit(Module(), batches)
