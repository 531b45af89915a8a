"""Trial classes of the present and of the first generation."""

from __future__ import annotations

from typing import Any

import told  # type: ignore[import-not-found]  # beside this file, which is the first place that Python looks at
import torch
from torch import nn
from torch.utils.data import TensorDataset

from determined import pytorch


def data() -> TensorDataset:
    inputs = torch.arange(64, dtype=torch.float32).reshape(32, 2) / 64
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


class Data(pytorch.PyTorchTrial):
    context: pytorch.PyTorchTrialContext

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(data(), self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(data(), self.context.get_per_slot_batch_size())


class Plain(Data):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        told.write_down()
        self.context = context
        self.model = context.wrap_model(nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        ranks = float(self.context.distributed.get_size())
        return {"validation_loss": nn.functional.mse_loss(self.model(batch[0]), batch[1]), "ranks": ranks}


class Outer:
    class Inner(Plain):
        pass


class Old(Data):
    """A trial of 0.12: the loop calls backward and the optimizer."""

    def __init__(self, context: Any) -> None:
        told.write_down()
        self.context = context

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.01)

    def train_batch(  # type: ignore[override]  # as programs of 0.12
        self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int
    ) -> dict[str, Any]:
        return {"loss": nn.functional.mse_loss(model(batch[0]), batch[1])}

    def evaluate_batch(self, batch: Any, model: nn.Module) -> dict[str, Any]:  # type: ignore[override]
        return {"validation_loss": nn.functional.mse_loss(model(batch[0]), batch[1]), "ranks": 1.0}
