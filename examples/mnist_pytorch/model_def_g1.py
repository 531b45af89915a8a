"""The same trial as it was written for 0.12: the loop owns model and optimizer, calls backward and steps."""

from __future__ import annotations

from typing import Any

import data
import torch
from model import build_model
from torch import nn
from torch.nn import functional as F

from determined import pytorch


class MNistTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.train_set, self.validation_set = data.load(data.settings(context))

    def build_model(self) -> nn.Module:
        return build_model(
            self.train_set.shape,
            n_filters1=self.context.get_hparam("n_filters1"),
            n_filters2=self.context.get_hparam("n_filters2"),
            dropout1=self.context.get_hparam("dropout1"),
            dropout2=self.context.get_hparam("dropout2"),
        )

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adadelta(model.parameters(), lr=self.context.get_hparam("learning_rate"))

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(
        self, batch: pytorch.TorchData, model: nn.Module, epoch_idx: int, batch_idx: int
    ) -> dict[str, torch.Tensor]:
        images, labels = batch
        return {"loss": F.nll_loss(model(images), labels)}

    def evaluate_batch(self, batch: pytorch.TorchData, model: nn.Module) -> dict[str, Any]:
        images, labels = batch
        output = model(images)
        return {
            "validation_loss": F.nll_loss(output, labels),
            "accuracy": (output.argmax(dim=1) == labels).float().mean(),
        }
