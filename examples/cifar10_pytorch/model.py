"""The classic small convolutional network for CIFAR-10."""

from torch import nn


def build_model(*, layer1_dropout: float, layer2_dropout: float, layer3_dropout: float) -> nn.Sequential:
    """Four convolutions and two linear layers for images of 3x32x32."""
    return nn.Sequential(
        nn.Conv2d(3, 32, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(32, 32, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(layer1_dropout),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(layer2_dropout),
        nn.Flatten(),
        nn.Linear(2304, 512),
        nn.ReLU(),
        nn.Dropout(layer3_dropout),
        nn.Linear(512, 10),
    )
