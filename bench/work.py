"""The work of every contender: models, batches, and the bare loop that they are compared with.

The bare loop collects nothing and reports nothing. The contenders report the mean loss every 100 batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

REPORT_EVERY = 100

Batch = tuple[torch.Tensor, torch.Tensor]


def tiny_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def tiny_batch() -> Batch:
    return torch.randn(16, 16), torch.randint(4, (16,))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 7 * 7, 10),
    )


def cnn_batch() -> Batch:
    return torch.randn(16, 1, 28, 28), torch.randint(10, (16,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "mlp": (tiny_mlp, tiny_batch),
    "cnn": (small_cnn, cnn_batch),
}


def make_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name][0]()


def make_batches(name: str, count: int) -> list[Batch]:
    """Return `count` batches, of which only some are different, so that the data stay small."""
    torch.manual_seed(1)
    different = [MODELS[name][1]() for _ in range(min(count, 50))]
    return [different[i % len(different)] for i in range(count)]


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[Sequence[torch.Tensor]]) -> None:
    """Train with the bare loop."""
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def metrics(model: nn.Module, batch: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return three metrics of a batch, as the validation cases compute them."""
    x, y = batch
    output = model(x)
    return F.cross_entropy(output, y), (output.argmax(1) == y).float().mean(), output.abs().max()


@torch.no_grad()
def validate(model: nn.Module, batches: Iterable[Sequence[torch.Tensor]]) -> None:
    """Validate in a bare loop: compute the metrics and drop them."""
    model.eval()
    for batch in batches:
        _loss, _accuracy, _largest = metrics(model, batch)


@torch.no_grad()
def validate_and_average(model: nn.Module, batches: Iterable[Sequence[torch.Tensor]]) -> list[float]:
    """Validate in a bare loop with a result: metrics are kept and averaged at the end."""
    model.eval()
    kept = [metrics(model, batch) for batch in batches]
    return [float(torch.stack(column).mean()) for column in zip(*kept, strict=True)]
