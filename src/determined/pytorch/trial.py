"""PyTorchTrial: the class a user writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from determined.pytorch.callbacks import PyTorchCallback
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data import DataLoader, TorchData
from determined.pytorch.device import data_length
from determined.pytorch.lr_scheduler import LRScheduler
from determined.pytorch.reducer import Reducer
from determined.trial import LegacyTrial


class PyTorchTrial(LegacyTrial, ABC):
    """A model, its data, and how to train and validate it on one batch.

    In `__init__`, make models, optimizers and schedulers and hand each to `context.wrap_model`,
    `context.wrap_optimizer` and `context.wrap_lr_scheduler`: what is wrapped is moved to the device, trained on
    several processes and kept in checkpoints; what is not wrapped is forgotten by a restart.

    In `train_batch`, run forward, then `context.backward(loss)`, then `context.step_optimizer(optimizer)`. Any number
    of models, optimizers and losses may be used, in any order.

    Programs written for Determined 0.12 define `build_model` and `optimizer` instead and get the model passed to
    `train_batch`; they work unchanged.
    """

    trial_context_class = PyTorchTrialContext

    def __init__(self, context: PyTorchTrialContext) -> None:
        """Wrap models, optimizers and schedulers here. Calling this base constructor is not required."""
        super().__init__(context)

    @abstractmethod
    def train_batch(self, batch: TorchData, epoch_idx: int, batch_idx: int) -> torch.Tensor | dict[str, Any]:
        """Train on one batch and return metrics: a dict, or one tensor, which is then called `loss`.

        `batch_idx` counts the batches of this rank since the trial began, `epoch_idx` the epochs; both go on after a
        restart.
        """

    @abstractmethod
    def build_training_data_loader(self) -> DataLoader:
        """The data to train on, with `context.get_per_slot_batch_size()` as the batch size."""

    @abstractmethod
    def build_validation_data_loader(self) -> DataLoader:
        """The data to validate on."""

    def evaluate_batch(self, batch: TorchData, batch_idx: int) -> dict[str, Any]:
        """Validate on one batch and return metrics, which `evaluation_reducer` then reduces over all batches and ranks.

        Override either this or `evaluate_full_dataset`. `batch_idx` counts within this validation, on this rank.
        """
        return {}

    def evaluate_full_dataset(self, data_loader: torch.utils.data.DataLoader[Any]) -> dict[str, Any]:
        """Validate on the whole data set at once, on the chief alone, and return the finished metrics."""
        return {}

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        """How the metrics of `evaluate_batch` are reduced: one way for all, or one for each name."""
        return Reducer.AVG

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Callbacks by name; the name is the key under which a callback's state is kept in checkpoints."""
        return {}

    def get_batch_length(self, batch: Any) -> int:
        """The number of records in a batch. Override it for batch types of your own."""
        return data_length(batch)

    def build_model(self) -> torch.nn.Module:
        """First generation (0.12): make the model. Newer programs call `context.wrap_model` in `__init__`."""
        raise TypeError("build_model() was not overridden")

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """First generation (0.12): make the optimizer. Newer programs call `context.wrap_optimizer` in `__init__`."""
        raise TypeError("optimizer(model) was not overridden")

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
        """First generation (0.12): make a scheduler, or none."""
        return None
