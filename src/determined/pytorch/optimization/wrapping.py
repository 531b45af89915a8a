"""Check and register the models, optimizers and schedulers that a trial passes to `context.wrap_*`.

The public methods with their documentation are in `PyTorchTrialContext`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from determined.errors import InvalidExperimentException
from determined.pytorch.optimization.lr_scheduler import LRScheduler
from determined.pytorch.optimization.steps import parameters_of
from determined.pytorch.ranks import data_parallel

if TYPE_CHECKING:
    from determined.pytorch.context import PyTorchTrialContext

logger = logging.getLogger("determined.pytorch")


def wrap_model(
    context: PyTorchTrialContext,
    model: torch.nn.Module,
    *,
    compile: bool | dict[str, Any],
    ddp_options: dict[str, Any],
) -> torch.nn.Module:
    """Register a model and return it; in a run it is autocast, moved and distributed first."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"wrap_model takes a torch.nn.Module, got {type(model).__name__}: {model!r}")
    precision = context._precision
    if precision.apex_configured:
        raise InvalidExperimentException("wrap_model must be called before configure_apex_amp")
    if context._belongs_to_run:
        # Autocast first, because it replaces the class of an object: later that would be the class of DDP's wrapper.
        if precision.automatic:
            model = precision.autocast(model)
        model = data_parallel.place(model, context.device, context.distributed.size, compile=compile, **ddp_options)
    context.models.append(model)
    return model


def wrap_optimizer(
    context: PyTorchTrialContext,
    optimizer: torch.optim.Optimizer,
    backward_passes_per_step: int,
    fp16_compression: bool | None,
    average_aggregated_gradients: bool | None,
) -> torch.optim.Optimizer:
    """Register an optimizer and return it; None selects the defaults of the context."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"wrap_optimizer takes a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if context._belongs_to_run and backward_passes_per_step < 1:
        raise InvalidExperimentException(
            f"wrap_optimizer: backward_passes_per_step is 1 or more, got {backward_passes_per_step!r}"
        )
    if context._precision.apex_configured:
        raise InvalidExperimentException("wrap_optimizer must be called before configure_apex_amp")
    # By identity, since tensors compare element by element.
    parameters = {id(parameter) for parameter in parameters_of(optimizer)}
    if context.models and not any(id(p) in parameters for model in context.models for p in model.parameters()):
        logger.warning(
            "wrap_optimizer got an optimizer (%s) that holds no parameter of any wrapped model; create the optimizer "
            "from the model that wrap_model returned",
            type(optimizer).__name__,
        )
    compress = context._default_fp16_compression if fp16_compression is None else fp16_compression
    # A context without a run has no DDP, so there is no exchange to compress.
    if context._belongs_to_run and compress:
        data_parallel.compress_gradients(context.models, parameters)
    # None means that the program did not say; the configuration's default applies then.
    if average_aggregated_gradients is None:
        average_aggregated_gradients = context._default_average_gradients
    context._optimization.add_optimizer(optimizer, average_aggregated_gradients)
    return optimizer


def wrap_lr_scheduler(
    context: PyTorchTrialContext, scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int
) -> None:
    """Register a scheduler; raise InvalidExperimentException if its optimizer or step mode does not fit."""
    is_plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    if is_plateau and step_mode is not LRScheduler.StepMode.MANUAL_STEP:
        raise InvalidExperimentException(
            "wrap_lr_scheduler: ReduceLROnPlateau needs a metric at each step, so it must use "
            f"LRScheduler.StepMode.MANUAL_STEP, got {step_mode!r}; step it in a callback's on_validation_end"
        )
    wrapped = LRScheduler(scheduler, step_mode, frequency)
    optimizer = getattr(scheduler, "optimizer", None)  # schedulers that chain others may have none
    if optimizer is not None and all(optimizer is not known for known in context.optimizers):
        raise InvalidExperimentException(
            f"wrap_lr_scheduler: the optimizer ({type(optimizer).__name__}) of the scheduler "
            f"({type(scheduler).__name__}) was not wrapped: call context.wrap_optimizer first"
        )
    context.lr_schedulers.append(wrapped)


def configure_apex_amp(
    context: PyTorchTrialContext,
    models: Any,
    *,
    opt_level: str,
    loss_scale: float | str | None,
    num_losses: int,
    min_loss_scale: float | None,
    max_loss_scale: float | None,
) -> None:
    """Autocast the models and scale the loss as an apex level says; raise for combinations that apex rejected too."""
    precision, ranks = context._precision, context.distributed.size
    if precision.apex_configured:
        raise InvalidExperimentException("configure_apex_amp was called twice")
    if precision.scaler is not None and precision.scaler.is_enabled():
        raise InvalidExperimentException("configure_apex_amp cannot be used together with wrap_scaler or use_amp")
    if ranks > 1 and num_losses != 1:
        raise InvalidExperimentException(
            f"configure_apex_amp: num_losses={num_losses} cannot be used with several ranks, only 1"
        )
    aggregation_frequency = context._optimization.aggregation_frequency
    if ranks > 1 and aggregation_frequency > 1:
        raise InvalidExperimentException(
            f"configure_apex_amp cannot be used with several ranks and aggregation_frequency={aggregation_frequency}"
        )
    if precision.use_apex_levels(opt_level, loss_scale, min_loss_scale, max_loss_scale):
        for model in models if isinstance(models, (list, tuple)) else [models]:
            precision.autocast(data_parallel.bare(model))
