"""`PyTorchTrial`: the base class of users' trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from determined.pytorch.callbacks import PyTorchCallback
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.device import data_length
from determined.pytorch.data.loader import DataLoader, TorchData
from determined.pytorch.metrics.reducer import Reducer
from determined.pytorch.optimization.lr_scheduler import LRScheduler
from determined.trial import LegacyTrial


class PyTorchTrial(LegacyTrial, ABC):
    """Base class of trials: a model, its data, and how to train and validate it on one batch.

    In `__init__`, create models, optimizers and schedulers and pass each to `context.wrap_model`,
    `context.wrap_optimizer` or `context.wrap_lr_scheduler`. Wrapped objects are moved to the device, trained on several
    processes and saved in checkpoints; others are lost at a restart.

    In `train_batch`, run forward, then `context.backward(loss)`, then `context.step_optimizer(optimizer)`. Any number
    of models, optimizers and losses may be used, in any order.

    Programs written for Determined 0.12 define `build_model` and `optimizer` instead and receive the model in
    `train_batch`; they work unchanged.
    """

    trial_context_class = PyTorchTrialContext
    context: PyTorchTrialContext

    def __init__(self, context: PyTorchTrialContext) -> None:
        """Wrap models, optimizers and schedulers here. Calling this base constructor is not required."""
        super().__init__(context)

    @abstractmethod
    def train_batch(self, batch: TorchData, epoch_idx: int, batch_idx: int) -> torch.Tensor | dict[str, Any]:
        """Train on one batch and return metrics: a dict, or a tensor, which is reported as `loss`.

        `batch_idx` counts the batches of this rank since the start of the trial, and `epoch_idx` the epochs, from 0;
        both continue after a restart.
        """

    @abstractmethod
    def build_training_data_loader(self) -> DataLoader:
        """Return the loader of the training data; use `context.get_per_slot_batch_size()` as its batch size."""

    @abstractmethod
    def build_validation_data_loader(self) -> DataLoader:
        """Return the loader of the validation data."""

    def evaluate_batch(self, batch: TorchData, batch_idx: int) -> dict[str, Any]:
        """Validate on one batch and return metrics, which `evaluation_reducer` reduces over all batches and ranks.

        Override either this method or `evaluate_full_dataset`. `batch_idx` counts within this validation, on this rank.
        """
        return {}

    def evaluate_full_dataset(self, data_loader: torch.utils.data.DataLoader[Any]) -> dict[str, Any]:
        """Validate on the complete data set at once, on the chief only, and return the final metrics."""
        return {}

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        """Return how the metrics of `evaluate_batch` are reduced: one reducer for all, or a dict by metric name."""
        return Reducer.AVG

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Return callbacks by name; checkpoints store the state of a callback under its name."""
        return {}

    def get_batch_length(self, batch: Any) -> int:
        """Return the number of records in a batch; override it for batch types without tensors or arrays."""
        return data_length(batch)

    def build_model(self) -> torch.nn.Module:
        """Create the model (first generation, 0.12). Newer programs call `context.wrap_model` in `__init__`."""
        raise TypeError("build_model() was not overridden")

    if TYPE_CHECKING:
        # Almost every program assigns its optimizer to `self.optimizer`; only those of 0.12 define a method. To declare
        # the method would let type checkers reject the assignment.
        optimizer: Any
    else:

        def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
            """Create the optimizer (first generation, 0.12).

            Newer programs call `context.wrap_optimizer` in `__init__`.
            """
            raise TypeError("optimizer(model) was not overridden")

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
        """Create a scheduler, or return None (first generation, 0.12)."""
        return None
