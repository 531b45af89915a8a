"""`Optimization`: backward and optimizer steps with gradient accumulation, averaging, clipping and loss scaling."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from determined.errors import InternalException, InvalidExperimentException
from determined.pytorch.optimization.lr_scheduler import LRScheduler, steps_after
from determined.pytorch.optimization.precision import Precision
from determined.pytorch.ranks import data_parallel

logger = logging.getLogger("determined.pytorch")

ClipGrads = Callable[[list[torch.nn.Parameter]], Any]


class Optimization:
    """The models, optimizers and schedulers of a trial, and what happens between a loss and the next batch.

    `updates` is whether the current batch ends an aggregation window, so that optimizers step. The loop sets it; in a
    run it is None before training.
    """

    def __init__(self, aggregation_frequency: int, precision: Precision, *, belongs_to_run: bool) -> None:
        self.aggregation_frequency = aggregation_frequency
        self.precision = precision
        self.models: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.lr_schedulers: list[LRScheduler] = []
        # None in a run until the loop decides, so that a step outside of train_batch is noticed.
        self.updates: bool | None = None if belongs_to_run else True
        self.count_batches_for_optimizer_steps = False
        self._averages: dict[torch.optim.Optimizer, bool] = {}  # whether gradients are averaged, once it has stepped
        self._unused: dict[torch.optim.Optimizer, bool] = {}  # the same before the first step, which is checked
        self._warned = False

    def add_optimizer(self, optimizer: torch.optim.Optimizer, average: bool) -> None:
        """Register an optimizer; with `average`, its gradients are divided by the aggregation frequency."""
        self.optimizers.append(optimizer)
        self._unused[optimizer] = average

    def begin_batch(self, batch_idx: int) -> None:
        """Decide whether optimizers step on this batch; only needed with gradient aggregation."""
        self.updates = (batch_idx + 1) % self.aggregation_frequency == 0
        # DDP exchanges gradients only on the last batch of a window; before it they are accumulated locally.
        data_parallel.set_sync(self.models, self.updates)

    def skip_batch(self, batch_idx: int, epoch_length: int, epoch_offset: int) -> None:
        """Advance schedules past a batch that is not trained; the gradients of its aggregation window are discarded."""
        self.begin_batch(batch_idx)
        if self.updates:
            # Gradients of the batches before it in this window would be applied with those of the next one.
            for optimizer in self.optimizers:
                clear_gradients(optimizer)
            self.step_schedulers(batch_idx, epoch_length, epoch_offset)

    def backward(
        self,
        loss: torch.Tensor,
        gradient: torch.Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Compute gradients, see `PyTorchTrialContext.backward`."""
        if not isinstance(loss, torch.Tensor):
            raise TypeError(f"context.backward takes the loss as a tensor, got {type(loss).__name__}: {loss!r}")
        if self.precision.automatic:
            loss = self.precision.scale(loss)
        # create_graph implies that the graph is needed again, as in torch.
        loss.backward(gradient, retain_graph or create_graph, create_graph)

    def step(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grads: ClipGrads | None = None,
        auto_zero_grads: bool = True,
        scaler: Any = None,
    ) -> None:
        """Step an optimizer, see `PyTorchTrialContext.step_optimizer`."""
        average = self._averages.get(optimizer)
        if average is None:
            average = self._first_step(optimizer)
        frequency = self.aggregation_frequency
        # One test instead of the branches below: most programs use
        # none of these features, and this runs for every batch.
        if frequency == 1 and self.updates and clip_grads is None and scaler is None and not self.precision.automatic:
            optimizer.step()  # the short path for the usual case
            if auto_zero_grads:
                clear_gradients(optimizer)
            return
        if frequency > 1 and not auto_zero_grads:
            raise InvalidExperimentException(
                f"step_optimizer(auto_zero_grads=False) cannot be used with aggregation_frequency={frequency}: "
                "the gradients of each window must be cleared"
            )
        if not self.updates:
            if self.updates is None:
                raise InternalException("context.step_optimizer was called before training; call it in train_batch")
            return
        # Before clipping, so that the limit applies to the gradients that the optimizer uses.
        if frequency > 1 and average:
            for parameter in parameters_of(optimizer):
                if parameter.grad is not None:
                    parameter.grad.div_(frequency)
        automatic = self.precision.automatic
        if clip_grads is not None:
            # Gradients are still multiplied by the loss scale, and a limit on them would be meaningless.
            if automatic:
                self.precision.scaler.unscale_(optimizer)
            clip_grads(parameters_of(optimizer))
        if automatic:
            self.precision.step(optimizer)
        # A program with its own scaler unscales gradients and updates the scaler in its own code.
        elif scaler is not None:
            scaler.step(optimizer)
        else:
            optimizer.step()
        if auto_zero_grads:
            clear_gradients(optimizer)

    def _first_step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Check an optimizer at its first step, and return whether its gradients are averaged.

        Raises InvalidExperimentException if it was not wrapped; warns if none of its parameters has a gradient.
        """
        average = self._unused.pop(optimizer, None)
        if average is None:
            raise InvalidExperimentException(
                f"context.step_optimizer got an optimizer ({type(optimizer).__name__}) that was not wrapped: pass what "
                "context.wrap_optimizer returned in __init__"
            )
        self._averages[optimizer] = average
        # Once per run: with several optimizers a single line says enough.
        if not self._warned and all(parameter.grad is None for parameter in parameters_of(optimizer)):
            self._warned = True
            logger.warning(
                "context.step_optimizer(): no parameter of the optimizer (%s) has a gradient, so nothing is trained. "
                "Call context.backward(loss) before it, with a loss that depends on these parameters.",
                type(optimizer).__name__,
            )
        return average

    def gradients_waiting(self) -> list[list[torch.Tensor | None]] | None:
        """Return the accumulated gradients of each optimizer for a checkpoint, or None if there are none."""
        if all(parameter.grad is None for optimizer in self.optimizers for parameter in parameters_of(optimizer)):
            return None
        # On the CPU, because the chief gathers the parts of all ranks.
        return [
            [
                None if parameter.grad is None else parameter.grad.detach().cpu()
                for parameter in parameters_of(optimizer)
            ]
            for optimizer in self.optimizers
        ]

    def put_gradients_back(self, gradients: list[list[torch.Tensor | None]], batches: int) -> None:
        """Restore accumulated gradients, unless no aggregation window is open after `batches` batches."""
        if self.aggregation_frequency > 1 and batches % self.aggregation_frequency == 0:
            return  # the aggregation frequency has changed since, so no window is open here
        for optimizer, waiting in zip(self.optimizers, gradients, strict=True):
            for parameter, gradient in zip(parameters_of(optimizer), waiting, strict=True):
                # In the type of the parameter too, since torch refuses gradients of another one.
                parameter.grad = None if gradient is None else gradient.to(parameter)

    def automatic_schedulers(self) -> list[LRScheduler]:
        """Return the schedulers that the loop steps."""
        return [one for one in self.lr_schedulers if one.step_mode is not LRScheduler.StepMode.MANUAL_STEP]

    def step_schedulers(self, batch_idx: int, epoch_length: int, epoch_offset: int = 0) -> None:
        """Step every automatic scheduler as often as is due; call it on a batch on which optimizers step."""
        for scheduler in self.lr_schedulers:
            times = steps_after(
                scheduler._step_mode,
                scheduler._frequency,
                batch_idx,
                self.aggregation_frequency,
                epoch_length,
                self.count_batches_for_optimizer_steps,
                epoch_offset,
            )
            for _ in range(times):
                scheduler._scheduler.step()


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return the parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def clear_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Set all gradients to None, like `optimizer.zero_grad()`, whose profiler record takes twenty times as long."""
    # The bound method of an instance; a subclass or a patched instance may do more than clear gradients.
    if getattr(optimizer.zero_grad, "__func__", None) is not torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad()  # the optimizer overrides it
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
