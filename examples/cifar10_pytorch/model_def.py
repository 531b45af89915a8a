"""A convolutional network for CIFAR-10, trained with RMSprop."""

from __future__ import annotations

import data
import torch
from model import build_model
from torch.nn import functional as F

from determined import pytorch


class CIFARTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.train_set, self.validation_set = data.load(data.settings(context))
        self.model = context.wrap_model(
            build_model(
                layer1_dropout=context.get_hparam("layer1_dropout"),
                layer2_dropout=context.get_hparam("layer2_dropout"),
                layer3_dropout=context.get_hparam("layer3_dropout"),
            )
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.RMSprop(
                self.model.parameters(),
                lr=context.get_hparam("learning_rate"),
                weight_decay=context.get_hparam("learning_rate_decay"),
                alpha=0.9,
            )
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: pytorch.TorchData, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images, labels = batch
        output = self.model(images)
        loss = F.cross_entropy(output, labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        correct = accuracy(output, labels)
        return {"loss": loss, "train_error": 1 - correct, "train_accuracy": correct}

    def evaluate_batch(self, batch: pytorch.TorchData) -> dict[str, torch.Tensor]:
        images, labels = batch
        correct = accuracy(self.model(images), labels)
        return {"validation_accuracy": correct, "validation_error": 1 - correct}


def accuracy(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the share of images that were classified correctly."""
    return (output.argmax(dim=1) == labels).float().mean()
