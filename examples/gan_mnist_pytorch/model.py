"""The two models: one draws images from noise, the other distinguishes them from real ones."""

from __future__ import annotations

import math

import torch
from torch import nn

LATENT = 100


class Generator(nn.Module):
    """Maps noise of `LATENT` numbers to an image with values from -1 to 1."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(LATENT, 128),
            nn.LeakyReLU(0.2),
            *widen(128, 256),
            *widen(256, 512),
            *widen(512, 1024),
            nn.Linear(1024, math.prod(shape)),
            nn.Tanh(),
            nn.Unflatten(1, shape),
        )

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.layers(noise)


class Discriminator(nn.Module):
    """Maps an image to one logit: above zero if the image looks real."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), 512),
            nn.LeakyReLU(0.2),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 1),
            nn.Flatten(0),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def widen(narrow: int, wide: int) -> list[nn.Module]:
    """Return one stage of the generator, which doubles the size."""
    return [nn.Linear(narrow, wide), nn.BatchNorm1d(wide, eps=0.8), nn.LeakyReLU(0.2)]
