"""Private names of earlier releases that third-party programs import."""

from __future__ import annotations

import logging
from typing import Any

import torch

from determined.pytorch import fit_arguments
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.controller import PyTorchTrialController
from determined.pytorch.fit_arguments import FitArguments
from determined.pytorch.plan import DEFAULT_REPORTING_PERIOD, BoundaryType
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Batch, TrainUnit
from determined.tensorboard.metric_writers.base import training_rows, validation_rows

logger = logging.getLogger("determined.pytorch")


class _PyTorchTrialController(PyTorchTrialController):
    """The controller with the constructor of releases 0.21 to 0.38, for programs that create one themselves."""

    def __init__(
        self,
        trial_inst: PyTorchTrial,
        context: PyTorchTrialContext,
        checkpoint_period: TrainUnit | None = None,
        validation_period: TrainUnit | None = None,
        reporting_period: TrainUnit | None = None,
        smaller_is_better: bool = True,
        steps_completed: int = 0,
        latest_checkpoint: str | None = None,
        local_training: bool = True,
        test_mode: bool = False,
        searcher_metric_name: str | None = None,
        checkpoint_policy: str = "best",
        step_zero_validation: bool = False,
        max_length: TrainUnit | None = None,
        global_batch_size: int | None = None,
        profiling_enabled: bool | None = False,
    ) -> None:
        """Create a controller from the arguments of earlier releases.

        `steps_completed` and `global_batch_size` have no effect: the counters of the checkpoint and the batch size of
        the context are used.
        """
        exp_conf = context._exp_conf or {}
        core_context = context._core_context()
        arguments = FitArguments(
            max_length=fit_arguments.checked_length(Batch(1) if test_mode else max_length, exp_conf, context),
            checkpoint_period=fit_arguments.checked_period("checkpoint_period", checkpoint_period),
            validation_period=fit_arguments.checked_period("validation_period", validation_period),
            # None was allowed here, unlike in `fit`.
            reporting_period=reporting_period or DEFAULT_REPORTING_PERIOD,
            checkpoint_policy=fit_arguments.checked_policy(
                checkpoint_policy, searcher_metric_name, smaller_is_better, exp_conf
            ),
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            test_mode=test_mode,
            profiling_enabled=bool(profiling_enabled),
        )
        super().__init__(trial_inst, context, core_context, arguments)

    @property
    def trial_id(self) -> int:
        """The id of the trial."""
        return self.state.trial_id


class _TrainBoundary:
    """A kind of boundary of the training loop together with its unit."""

    def __init__(self, step_type: BoundaryType, unit: TrainUnit) -> None:
        self.step_type = step_type
        self.unit = unit
        self.limit_reached = False


def _log_tb_metrics(
    writer: Any, kind: str, steps_completed: int, metrics: dict[str, Any], batch_metrics: Any = None
) -> None:
    """Write reported metrics to a SummaryWriter, with the same tags and steps as the loop."""
    rows = (
        validation_rows(steps_completed, metrics)
        if kind in ("val", "validation")
        else training_rows(steps_completed, metrics, batch_metrics)
    )
    for tag, step, value in rows:
        writer.add_scalar(tag, value, step)


def reset_parameters(model: torch.nn.Module) -> None:
    """Reinitialise the weights of every layer of a model (first generation; deprecated)."""
    logger.warning("reset_parameters is deprecated: layers draw their weights when they are made")
    for layer in model.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
