"""`context.experimental`: switches that most trials do not need."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from determined.pytorch.context import PyTorchTrialContext
    from determined.pytorch.metrics.reducer import MetricReducer

logger = logging.getLogger("determined.pytorch")


class PyTorchExperimentalContext:
    """Optional switches of a trial; call the methods in the trial's `__init__`."""

    def __init__(self, parent: PyTorchTrialContext) -> None:
        self._parent = parent
        self._any_loader = False
        self._auto_to_device = True
        self._global_shuffle = False
        self._keep_metric_shapes = False
        self._weight_by_records = False
        self._pickled_state = False

    def use_amp(self, dtype: torch.dtype | None = None) -> None:
        """Enable automatic mixed precision: autocast of wrapped models and loss scaling. Call it before `wrap_model`.

        `dtype` defaults to float16 with a gradient scaler on CUDA, and to bfloat16 on other devices.
        """
        self._parent._precision.use_amp(bool(self._parent.models), dtype)

    def disable_dataset_reproducibility_checks(self) -> None:
        """Allow any iterable from `build_training_data_loader` and `build_validation_data_loader`.

        Such loaders are not sharded: do it with `context.distributed` and `context.get_trial_seed()`. After a restart
        the training loader is advanced to its previous position, unless the program calls `context.get_initial_batch()`
        and skips these batches itself.
        """
        logger.info("data loaders are used as they are: the program is responsible for sharding and seeding")
        self._any_loader = True

    def disable_auto_to_device(self) -> None:
        """Pass batches to `train_batch` and `evaluate_batch` without moving them to the device."""
        self._auto_to_device = False

    def use_global_shuffle(self) -> None:
        """Shuffle with torch's global generator, as releases up to 0.38 did, for comparisons with their runs.

        The order of the data then changes at a restart.
        """
        self._global_shuffle = True

    def count_batches_for_optimizer_steps(self) -> None:
        """Count batches instead of optimizer steps for STEP_EVERY_OPTIMIZER_STEP, as releases up to 0.38 did."""
        self._parent._optimization.count_batches_for_optimizer_steps = True

    def keep_metric_shapes(self) -> None:
        """Reduce vector-valued validation metrics over batches only, instead of to one number."""
        self._keep_metric_shapes = True

    def weight_metrics_by_records(self) -> None:
        """Average validation metrics over records instead of batches, so that a short last batch counts less."""
        self._weight_by_records = True

    def allow_pickled_state(self) -> None:
        """Save state that cannot be encoded safely as pickles, in a separate file of each checkpoint.

        Reading a pickle can run code that its author put there. The file is therefore read only when a trial that makes
        this call resumes from the checkpoint, never to load weights. Make the call only if you trust every checkpoint
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
        """Call `context.wrap_reducer`; this was its name before 0.15.2."""
        return self._parent.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """Call `context.reset_reducers`; this was its name before 0.15.2."""
        self._parent.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """Call `context.reduce_metrics`; this was its name before 0.15.2."""
        return self._parent.reduce_metrics(for_training)
