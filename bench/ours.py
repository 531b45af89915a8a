"""Our side of each case: a trial, and `fit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.nn import functional as F

from bench import work
from determined import pytorch


class Trial(pytorch.PyTorchTrial):
    """Trains on the given loader, with reports, TensorBoard and progress in their default settings."""

    def __init__(
        self,
        context: pytorch.PyTorchTrialContext,
        model: nn.Module,
        training: Any,
        validation: Any = (),
        callbacks: dict[str, pytorch.PyTorchCallback] | None = None,
    ) -> None:
        self.context = context
        context.experimental.disable_dataset_reproducibility_checks()
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(work.make_optimizer(self.model))
        self.training = training
        self.validation = validation or [work.tiny_batch()]
        self.callbacks = callbacks or {}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        loss, accuracy, largest = work.metrics(self.model, batch)
        return {"loss": loss, "accuracy": accuracy, "largest": largest}

    def build_training_data_loader(self) -> Any:
        return self.training

    def build_validation_data_loader(self) -> Any:
        return self.validation

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return self.callbacks


class WithoutValidation(Trial):
    """For the training cases: their single validation at the end must not take time."""

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"nothing": 0.0}


def train(model: nn.Module, batches: Any, count: int, *, report_every: int = work.REPORT_EVERY) -> None:
    """Call `fit` once over `count` batches."""
    with pytorch.init() as context:
        pytorch.Trainer(WithoutValidation(context, model, batches), context).fit(
            max_length=pytorch.Batch(count),
            reporting_period=pytorch.Batch(report_every),
            checkpoint_policy="none",
        )


class _OnTrainingReport(pytorch.PyTorchCallback):
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
        self.call()


def validate_many(
    model: nn.Module,
    batches: Sequence[Any],
    times: int,
    *,
    before: Callable[[], None],
    after: Callable[[], None],
) -> None:
    """Call `fit` once, in which every batch is followed by a validation, between `before()` and `after()`.

    `before` is called when the training batch was reported, `after` when the loop requests the next batch: the
    validation, its report and the decisions after it are in between.
    """

    def training() -> Any:
        batch = work.tiny_batch()
        for number in range(times + 1):
            if number:
                after()
            yield batch

    class Feed:
        def __iter__(self) -> Any:
            return training()

        def __len__(self) -> int:
            return times + 1

    with pytorch.init() as context:
        trial = Trial(context, model, Feed(), batches, {"clock": _OnTrainingReport(before)})
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(times + 1),
            validation_period=pytorch.Batch(1),
            checkpoint_policy="none",
        )
