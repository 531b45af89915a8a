"""The trial as written since 0.12.13: wrap in the constructor, call backward and step in `train_batch`."""

from __future__ import annotations

from typing import Any

import data
import torch
from model import build_model
from torch.nn import functional as F

from determined import pytorch


class MNistTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.train_set, self.validation_set = data.load(data.settings(context))
        self.model = context.wrap_model(
            build_model(
                self.train_set.shape,
                n_filters1=context.get_hparam("n_filters1"),
                n_filters2=context.get_hparam("n_filters2"),
                dropout1=context.get_hparam("dropout1"),
                dropout2=context.get_hparam("dropout2"),
            )
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adadelta(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: pytorch.TorchData, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images, labels = batch
        loss = F.nll_loss(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: pytorch.TorchData) -> dict[str, Any]:
        images, labels = batch
        output = self.model(images)
        return {
            "validation_loss": F.nll_loss(output, labels),
            "accuracy": (output.argmax(dim=1) == labels).float().mean(),
        }
