"""A script that trains one batch and prints the CPU time that the process has used so far."""

from __future__ import annotations

import time
from typing import Any


def main(*, who: str) -> float:
    return ours() if who == "determined" else bare()


def bare() -> float:
    import torch
    from torch.nn import functional as F

    data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        break
    return time.process_time()


def ours() -> float:
    import torch
    from torch.nn import functional as F

    from determined import pytorch

    data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
    trained: list[float] = []

    class Trial(pytorch.PyTorchTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            self.context = context
            layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)]
            self.model = context.wrap_model(torch.nn.Sequential(*layers))
            self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            x, y = batch
            loss = F.cross_entropy(self.model(x), y)
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            trained.append(time.process_time())
            return {"loss": loss}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return {"nothing": 0.0}

        def build_training_data_loader(self) -> pytorch.DataLoader:
            return pytorch.DataLoader(data, batch_size=16, shuffle=True)

        def build_validation_data_loader(self) -> pytorch.DataLoader:
            return pytorch.DataLoader(data, batch_size=16)

    with pytorch.init() as context:
        pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(1), checkpoint_policy="none")
    return trained[0]
