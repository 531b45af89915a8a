"""A small trial with everything that an exact resume must restore: shuffling, dropout, Adam."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from determined import pytorch


class LinearTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        torch.manual_seed(context.get_trial_seed())
        self.model = context.wrap_model(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1)))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("lr")))

    def data(self, records: int, seed: int) -> TensorDataset:
        inputs = torch.randn(records, 8, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(inputs, inputs.sum(1, keepdim=True))

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.data(256, 1), self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.data(64, 2), 16)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        inputs, targets = batch
        return {"validation_loss": nn.functional.mse_loss(self.model(inputs), targets)}
