"""context.experimental: switches that most trials never touch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from determined.pytorch.context import PyTorchTrialContext
    from determined.pytorch.reducer import MetricReducer

logger = logging.getLogger("determined.pytorch")


class PyTorchExperimentalContext:
    """Switches of a trial, to be set in its `__init__`."""

    def __init__(self, parent: PyTorchTrialContext) -> None:
        self._parent = parent
        self._any_loader = False
        self._auto_to_device = True
        self._global_shuffle = False
        self._keep_metric_shapes = False
        self._weight_by_records = False
        self._pickled_state = False

    def use_amp(self, dtype: torch.dtype | None = None) -> None:
        """Automatic mixed precision: autocast, loss scaling and everything around it. Call it before `wrap_model`.

        float16 with a gradient scaler on CUDA, bfloat16 elsewhere; `dtype` chooses another.
        """
        self._parent._precision.use_amp(bool(self._parent.models), dtype)

    def disable_dataset_reproducibility_checks(self) -> None:
        """Allow any iterable from `build_training_data_loader` and `build_validation_data_loader`.

        The loop then does not shard for you: use `context.distributed` and `context.get_trial_seed()`. After a
        restart it brings the loader to where it was, unless you skip `context.get_initial_batch()` batches yourself.
        """
        logger.info("data loaders are used as they are: sharding and seeding are the program's own")
        self._any_loader = True

    def disable_auto_to_device(self) -> None:
        """Hand batches to `train_batch` and `evaluate_batch` unmoved."""
        self._auto_to_device = False

    def use_global_shuffle(self) -> None:
        """Shuffle by torch's global generator, as releases up to 0.38 did, to compare with their runs.

        Such an order does not survive a restart.
        """
        self._global_shuffle = True

    def count_batches_for_optimizer_steps(self) -> None:
        """Let STEP_EVERY_OPTIMIZER_STEP with a frequency count batches, as releases up to 0.38 did."""
        self._parent._optimization.count_batches_for_optimizer_steps = True

    def keep_metric_shapes(self) -> None:
        """Reduce validation metrics that are vectors along the batches only, instead of to one number."""
        self._keep_metric_shapes = True

    def weight_metrics_by_records(self) -> None:
        """Average validation metrics over records instead of over batches, so that a short last batch counts less."""
        self._weight_by_records = True

    def allow_pickled_state(self) -> None:
        """Save what cannot be encoded safely as pickles, in a file of its own in each checkpoint.

        Reading a pickle can run code that its author put there. So the file is read only when a trial that makes this
        call is trained from the checkpoint, never to load weights. Make the call only if you trust every checkpoint
        that you resume from.
        """
        self._pickled_state = True

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """The name of `context.wrap_reducer` before 0.15.2."""
        return self._parent.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """The name of `context.reset_reducers` before 0.15.2."""
        self._parent.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """The name of `context.reduce_metrics` before 0.15.2."""
        return self._parent.reduce_metrics(for_training)
