"""Several outputs from one network, with batches that are pairs of dicts of numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import data
import numpy as np
import torch
from model import MultiNet
from torch.nn import functional as F

from determined import pytorch


def collate(records: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return one batch: the inputs by name and the labels by name. The arrays reach the trial as tensors."""
    images = np.stack([image.numpy() for image, _ in records])
    digits = np.array([int(label) for _, label in records], dtype=np.int64)
    return {"data": images}, {"digit_labels": digits, "binary_labels": (digits >= 5).astype(np.float32)}


class MultiMNistTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.train_set, self.validation_set = data.load(data.settings(context))
        self.model = context.wrap_model(
            MultiNet(
                self.train_set.shape,
                n_filters1=context.get_hparam("n_filters1"),
                n_filters2=context.get_hparam("n_filters2"),
                dropout=context.get_hparam("dropout"),
            )
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("learning_rate"), momentum=0.9)
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True, collate_fn=collate)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.validation_set, batch_size=batch_size, collate_fn=collate)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        inputs, labels = batch
        predictions = self.model(inputs)
        loss = F.nll_loss(predictions["digit_predictions"], labels["digit_labels"])
        loss = loss + F.binary_cross_entropy_with_logits(predictions["binary_predictions"], labels["binary_labels"])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "classification_error": digit_error(predictions, labels)}

    def evaluate_batch(self, batch: Any) -> dict[str, torch.Tensor]:
        inputs, labels = batch
        return {"validation_error": digit_error(self.model(inputs), labels)}


def digit_error(predictions: dict[str, torch.Tensor], labels: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the share of digits that were classified wrongly."""
    return (predictions["digit_predictions"].argmax(dim=1) != labels["digit_labels"]).float().mean()
