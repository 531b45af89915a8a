"""A small convolutional network for images of any size."""

from torch import nn


def build_model(
    shape: tuple[int, int, int],
    *,
    n_filters1: int,
    n_filters2: int,
    dropout1: float,
    dropout2: float,
) -> nn.Sequential:
    """Return two convolutions, one pooling, two linear layers; `shape` is one image's (channels, height, width)."""
    channels, height, width = shape
    # Each convolution removes a pixel at every side, and pooling halves the rest.
    pooled = ((height - 4) // 2) * ((width - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, n_filters1, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(n_filters1, n_filters2, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(dropout1),
        nn.Flatten(),
        nn.Linear(pooled * n_filters2, 128),
        nn.ReLU(),
        nn.Dropout(dropout2),
        nn.Linear(128, 10),
        nn.LogSoftmax(dim=1),
    )
