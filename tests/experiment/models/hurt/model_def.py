"""A trial class with the failure that its hyperparameters name, on one slot or several."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import determined as det
from determined import pytorch


def data() -> TensorDataset:
    inputs = torch.arange(64, dtype=torch.float32).reshape(32, 2) / 64
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


class HurtTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.trouble = context.get_hparam("trouble")
        if self.trouble == "invalid_hp":
            raise det.InvalidHP("not with these")
        if self.trouble == "raise_at_start":
            raise ValueError("no model like that")
        self.model = context.wrap_model(nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(data(), self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(data(), self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        if batch_idx == 5:
            self.make_trouble()
            if self.trouble == "wrong_result":
                return self.open_bar_before_a_wrong_result()
        if self.trouble == "slow":
            time.sleep(0.05)
        return {"loss": loss}

    def open_bar_before_a_wrong_result(self) -> dict[str, Any]:
        """Show the traceback of an error that is handled, leave a progress bar open, and return no metrics."""
        try:
            raise KeyError("handled")
        except KeyError:
            traceback.print_exc()
        sys.stderr.write("\r  0%|          | 0/8")
        sys.stderr.write("\r 62%|██████▎   | 5/8")
        return "no metrics"  # type: ignore[return-value]  # the mistake that the test is about

    def make_trouble(self) -> None:
        last = self.context.distributed.get_rank() == self.context.distributed.get_size() - 1
        if self.trouble == "late_invalid_hp":
            raise det.InvalidHP("found out late")
        if self.trouble == "raise":
            raise RuntimeError("the sixth batch failed")
        if self.trouble == "fatal":
            sys.stderr.write("a fatal thing was seen\n")
            raise RuntimeError("after the fatal thing")
        if self.trouble == "rank_raises" and last:
            raise RuntimeError("the last rank failed")
        if self.trouble == "rank_is_killed" and last:
            os.kill(os.getpid(), signal.SIGKILL)

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        if self.trouble == "raise_in_validation":
            raise KeyError("no such label")
        return {"validation_loss": nn.functional.mse_loss(self.model(batch[0]), batch[1])}
