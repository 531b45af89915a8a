"""A trial that records when its first batch was trained."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from determined import pytorch


class FirstBatchTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Linear(4, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters()))

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), 4)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return self.build_training_data_loader()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        if batch_idx == 0:
            place = Path(self.context.get_hparam("place")) / str(self.context.get_trial_id())
            place.write_text(str(time.time()))
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        return {"validation_loss": nn.functional.mse_loss(self.model(batch[0]), batch[1])}
