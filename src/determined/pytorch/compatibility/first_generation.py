"""Adapt trials of the first generation (Determined 0.12) to the current training loop.

Such a trial creates its model, optimizer and scheduler in separate methods, gets the model as an argument of
`train_batch` and of the evaluate methods, and leaves backward and optimizer step to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from determined.config.stored import StoredConfig
from determined.errors import InvalidExperimentException
from determined.pytorch.binding import bind, overridden
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.optimization.lr_scheduler import LRScheduler
from determined.pytorch.trial import PyTorchTrial

logger = logging.getLogger("determined.pytorch")

_METHODS = ("build_model", "optimizer", "create_lr_scheduler")


def is_first_generation(trial: PyTorchTrial, context: PyTorchTrialContext) -> bool:
    """Return whether the trial wrapped no model and defines `build_model` and `optimizer`.

    A trial that wrapped a model is of a later generation, even if it has helpers with these names. Raises
    InvalidExperimentException if only one of the two methods is defined.
    """
    if context.models:
        return context._first_generation  # wrapped by an earlier fit() of this trial
    own = [name for name in _METHODS if overridden(trial, name, PyTorchTrial)]
    if own and not {"build_model", "optimizer"} <= {*own}:
        missing = [name for name in ("build_model", "optimizer") if name not in own]
        raise InvalidExperimentException(
            f"{type(trial).__name__} defines {' and '.join(own)} but not {' and '.join(missing)}: a trial of the first "
            "generation needs both build_model and optimizer; newer ones call context.wrap_model and "
            "context.wrap_optimizer in __init__"
        )
    return bool(own)


def set_up(trial: PyTorchTrial, context: PyTorchTrialContext) -> None:
    """Create and wrap model, optimizer and scheduler, calling each of the trial's methods once."""
    if context._first_generation:
        return
    context._first_generation = True
    logger.warning(
        "%s defines build_model and optimizer, as in Determined 0.12; "
        "docs/how-to/migrate-from-0.12.md shows the newer form, which wraps them in __init__",
        type(trial).__name__,
    )
    # All three are read before the first call, because programs assign the results to attributes of the same names.
    make_model, make_optimizer, make_scheduler = trial.build_model, trial.optimizer, trial.create_lr_scheduler
    level = _mixed_precision_level(context)
    model = context.wrap_model(make_model())
    optimizer = context.wrap_optimizer(make_optimizer(model))
    # After both were wrapped: wrapping is refused once apex is configured.
    if level != "O0":
        context.configure_apex_amp(model, optimizer, opt_level=level)
    scheduler = make_scheduler(optimizer)
    if scheduler is None:
        return
    if not isinstance(scheduler, LRScheduler):
        raise InvalidExperimentException(
            f"create_lr_scheduler must return a determined.pytorch.LRScheduler or None, got {type(scheduler).__name__}"
        )
    # A scheduler of another optimizer would change learning rates that no step uses.
    if getattr(scheduler.scheduler, "optimizer", optimizer) is not optimizer:
        raise InvalidExperimentException(
            "create_lr_scheduler must make its scheduler with the optimizer that it is passed"
        )
    context.lr_schedulers.append(scheduler)


def _mixed_precision_level(context: PyTorchTrialContext) -> str:
    """Return `optimizations.mixed_precision` of the experiment configuration, where 0.12 had it; O0 by default."""
    return str(StoredConfig(context._exp_conf).optimizations.mixed_precision or "O0")


def bind_train_batch(trial: PyTorchTrial, context: PyTorchTrialContext, callbacks: Callbacks) -> Callable[..., Any]:
    """Return `train_batch` extended by backward and optimizer step, which the first generation left to the loop."""
    user = bind(trial.train_batch, ["batch", "model", "epoch_idx", "batch_idx"], any_names=True)
    model, optimizer = context.models[0], context.optimizers[0]
    clip = _clipping(context, callbacks)

    def train_batch(batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        """Train on one batch: the user's method, then backward and the optimizer step."""
        metrics = user(batch, model, epoch_idx, batch_idx)
        # As in the loop: a tensor alone is the loss.
        if isinstance(metrics, torch.Tensor):
            metrics = {"loss": metrics}
        if not isinstance(metrics, dict) or "loss" not in metrics:
            raise InvalidExperimentException(
                "train_batch of a first-generation trial must return the loss or a dict with the key 'loss', "
                f"got {sorted(metrics) if isinstance(metrics, dict) else type(metrics).__name__}"
            )
        context.backward(metrics["loss"])
        context.step_optimizer(optimizer, clip_grads=clip)
        return metrics

    return train_batch


def bind_evaluate(trial: PyTorchTrial, context: PyTorchTrialContext, method: str) -> Callable[..., Any]:
    """Return the trial's evaluate method with the model passed as its second argument."""
    first = "batch" if method == "evaluate_batch" else "data_loader"
    user = bind(getattr(trial, method), [first, "model"], any_names=True)
    model = context.models[0]
    # 0.12 had no `batch_idx` in its evaluate methods.
    return lambda data, *_: user(data, model)


def _clipping(context: PyTorchTrialContext, callbacks: Callbacks) -> Callable[[list[torch.nn.Parameter]], None] | None:
    """Return the function that clips gradients before a step, or None.

    It calls the callbacks' `on_before_optimizer_step`, and applies the two hyperparameters that 0.12.0 had instead.
    """
    hparams = context._hparams or {}
    norm, value = hparams.get("clip_grad_l2_norm"), hparams.get("clip_grad_val")
    if norm is not None and value is not None:
        raise InvalidExperimentException(
            f"the hyperparameters clip_grad_l2_norm={norm!r} and clip_grad_val={value!r} exclude each other"
        )
    if norm is None and value is None and not callbacks.overrides("on_before_optimizer_step"):
        return None

    def clip(parameters: list[torch.nn.Parameter]) -> None:
        """Clip the gradients by the hyperparameters, then call the callbacks."""
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, norm)
        if value is not None:
            torch.nn.utils.clip_grad_value_(parameters, value)
        callbacks.call("on_before_optimizer_step", parameters)

    return clip
