"""One trunk with two heads: which digit it is, and whether it is five or more."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class MultiNet(nn.Module):
    """Takes a dict of inputs and returns a dict of predictions, both as logarithms or logits."""

    def __init__(self, shape: tuple[int, int, int], *, n_filters1: int, n_filters2: int, dropout: float) -> None:
        super().__init__()
        channels, height, width = shape
        self.trunk = nn.Sequential(
            nn.Conv2d(channels, n_filters1, kernel_size=5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(n_filters1, n_filters2, kernel_size=5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(after_trunk(height) * after_trunk(width) * n_filters2, 50),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.digit = nn.Linear(50, 10)
        self.binary = nn.Linear(50, 1)

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        features = self.trunk(inputs["data"])
        return {
            "digit_predictions": F.log_softmax(self.digit(features), dim=1),
            # Only the last axis is removed: a batch of one record keeps its batch axis.
            "binary_predictions": self.binary(features).squeeze(dim=1),
        }


def after_trunk(side: int) -> int:
    """Return the length of a side after two convolutions of five pixels, each followed by halving."""
    for _ in range(2):
        side = (side - 4) // 2
    return side
