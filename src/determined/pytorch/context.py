"""PyTorchTrialContext: the wide door between a trial and the library. Each method hands over to a small room."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch

from determined.core import DistributedContext
from determined.errors import InternalException, InvalidExperimentException
from determined.info import ClusterInfo
from determined.pytorch import parallel, precision
from determined.pytorch.device import choose_device, mover, to_device
from determined.pytorch.experimental_context import PyTorchExperimentalContext
from determined.pytorch.last_fit import LastFit
from determined.pytorch.lr_scheduler import LRScheduler
from determined.pytorch.not_numbers import NotNumbers
from determined.pytorch.open_run import OpenRun
from determined.pytorch.optimization import ClipGrads, Optimization, parameters_of
from determined.pytorch.precision import Precision
from determined.pytorch.reducer import MetricReducer, ReducerContext
from determined.tensorboard import directory
from determined.trial import TrialContext

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from determined import core

logger = logging.getLogger("determined.pytorch")

_Models = TypeVar("_Models")
_Optimizers = TypeVar("_Optimizers")


class PyTorchTrialContext(TrialContext):
    """What a trial may ask for and tell while it is trained.

    A *managed* context belongs to a run: what is wrapped is moved to the device and kept equal over ranks. An
    unmanaged one (`from_config`, `CheckpointLoadContext`) only registers what is wrapped, so that a trial can be
    driven by hand.
    """

    def __init__(
        self,
        *,
        distributed: DistributedContext,
        hparams: dict[str, Any] | None,
        exp_conf: dict[str, Any] | None,
        trial_seed: int | None,
        trial_id: int = 0,
        experiment_id: int = 0,
        steps_completed: int = 0,
        tensorboard_path: Path | None,
        slots_per_trial: int = 1,
        managed: bool,
        info: ClusterInfo | None = None,
        core_context: core.Context | None = None,
        aggregation_frequency: int = 1,
        enable_tensorboard_logging: bool = True,
        code_dir: Path | None = None,
    ) -> None:
        super().__init__(
            distributed=distributed,
            hparams=hparams,
            exp_conf=exp_conf,
            trial_seed=trial_seed,
            trial_id=trial_id,
            experiment_id=experiment_id,
            steps_completed=steps_completed,
            tensorboard_path=tensorboard_path,
            slots_per_trial=slots_per_trial,
            managed=managed,
            info=info,
        )
        if isinstance(aggregation_frequency, bool) or not isinstance(aggregation_frequency, int):
            raise TypeError(f"aggregation_frequency is a whole number, got {aggregation_frequency!r}")
        if aggregation_frequency < 1:
            raise ValueError(f"aggregation_frequency is 1 or more, got {aggregation_frequency!r}")
        self._core = core_context
        self._run: OpenRun | None = None  # set by pytorch.init()
        self._code_dir = code_dir  # where the code in checkpoints comes from; None: they contain none
        self.device = choose_device(distributed.size, distributed.local_rank) if managed else torch.device("cpu")
        self._precision = Precision(self.device)
        self._optimization = Optimization(aggregation_frequency, self._precision, managed)
        self._reducers = ReducerContext(distributed.allgather)
        # Called for every batch, so without a call in between.
        self.backward = self._optimization.backward  # type: ignore[method-assign]
        self.step_optimizer = self._optimization.step  # type: ignore[method-assign]
        self.models = self._optimization.models
        self.optimizers = self._optimization.optimizers
        self.lr_schedulers = self._optimization.lr_schedulers
        self.profiler: Any = None
        self.experimental = PyTorchExperimentalContext(self)

        self._current_batch_idx: int | None = None
        self._epoch_length: int | None = None
        self._epoch_offset = 0
        self._enable_tensorboard_logging = enable_tensorboard_logging
        self._summary_writer: SummaryWriter | None = None
        self._warned_types: set[type] = set()
        self._last_fit: LastFit | None = None
        self._not_numbers = NotNumbers(chief=distributed.rank == 0)
        self._default_fp16_compression = False
        self._default_average_gradients = True
        self._first_generation = False

    # The run

    def __enter__(self) -> Self:
        if self._run is not None:
            self._run.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None:
            self._run.leave(kind, error, trace)

    def close(self) -> None:
        """End the run, for programs and notebooks that do not use `with pytorch.init()`; again, it does nothing.

        The run is recorded as its last `fit` ended: COMPLETED, CANCELED after an interrupt, ERROR after an exception.
        A run that is still open is closed when the program or the notebook's kernel ends.
        """
        if self._run is not None:
            self._run.close()

    # Wrapping

    def wrap_model(
        self, model: torch.nn.Module, *, compile: bool | dict[str, Any] = False, **ddp_options: Any
    ) -> torch.nn.Module:
        """Register a model: it is moved to the device, kept equal over ranks and saved in checkpoints.

        `compile=True` (or a dict of options for `torch.compile`) compiles it in place. Further keywords go to torch's
        `DistributedDataParallel` when there are several ranks, for example `find_unused_parameters=True`.
        """
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"wrap_model takes a torch.nn.Module, got {type(model).__name__}: {model!r}")
        if self._precision.apex_configured:
            raise InvalidExperimentException("wrap_model must be called before configure_apex_amp")
        if self._managed:
            if self._precision.automatic:
                model = self._precision.autocast(model)
            model = parallel.place(model, self.device, self.distributed.size, compile=compile, **ddp_options)
        self.models.append(model)
        return model

    def wrap_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,
        average_aggregated_gradients: bool | None = None,
    ) -> torch.optim.Optimizer:
        """Register an optimizer, so that `step_optimizer` can step it and checkpoints hold its state.

        `fp16_compression` exchanges gradients between ranks in float16. `average_aggregated_gradients` (on by default)
        divides gradients by the aggregation frequency before a step. `backward_passes_per_step` belonged to an older
        backend and is accepted.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"wrap_optimizer takes a torch.optim.Optimizer, got {type(optimizer).__name__}")
        if self._managed and backward_passes_per_step < 1:
            raise InvalidExperimentException(
                f"wrap_optimizer: backward_passes_per_step is 1 or more, got {backward_passes_per_step!r}"
            )
        if self._precision.apex_configured:
            raise InvalidExperimentException("wrap_optimizer must be called before configure_apex_amp")
        parameters = {id(parameter) for parameter in parameters_of(optimizer)}
        if self.models and not any(id(p) in parameters for model in self.models for p in model.parameters()):
            logger.warning(
                "wrap_optimizer got an optimizer (%s) that holds no parameter of any wrapped model; make the optimizer "
                "from the model that wrap_model returned",
                type(optimizer).__name__,
            )
        compress = self._default_fp16_compression if fp16_compression is None else fp16_compression
        if self._managed and compress:
            parallel.compress_gradients(self.models, parameters)
        if average_aggregated_gradients is None:
            average_aggregated_gradients = self._default_average_gradients
        self._optimization.add_optimizer(optimizer, average_aggregated_gradients)
        return optimizer

    def wrap_lr_scheduler(self, lr_scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int = 1) -> Any:
        """Register a learning-rate scheduler, to be stepped every `frequency`-th time of its mode."""
        if (
            isinstance(lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
            and step_mode is not LRScheduler.StepMode.MANUAL_STEP
        ):
            raise InvalidExperimentException(
                "wrap_lr_scheduler: ReduceLROnPlateau needs a metric at each step, so it must use "
                f"LRScheduler.StepMode.MANUAL_STEP, got {step_mode!r}; step it in a callback's on_validation_end"
            )
        wrapped = LRScheduler(lr_scheduler, step_mode, frequency)
        optimizer = getattr(lr_scheduler, "optimizer", None)
        if optimizer is not None and all(optimizer is not known for known in self.optimizers):
            raise InvalidExperimentException(
                f"wrap_lr_scheduler: the optimizer ({type(optimizer).__name__}) of the scheduler "
                f"({type(lr_scheduler).__name__}) was not wrapped: call context.wrap_optimizer first"
            )
        self.lr_schedulers.append(wrapped)
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        """Register a gradient scaler that the program drives itself, so that checkpoints hold its state."""
        return self._precision.wrap_scaler(scaler, bool(self.models))

    def configure_apex_amp(
        self,
        models: _Models,
        optimizers: _Optimizers,
        enabled: bool = True,
        opt_level: str = "O1",
        cast_model_type: torch.dtype | None = None,
        patch_torch_functions: bool | None = None,
        keep_batchnorm_fp32: bool | str | None = None,
        master_weights: bool | None = None,
        loss_scale: float | str | None = None,
        cast_model_outputs: torch.dtype | None = None,
        num_losses: int = 1,
        verbosity: int = 1,
        min_loss_scale: float | None = None,
        max_loss_scale: float | None = 2.0**24,
    ) -> tuple[_Models, _Optimizers]:
        """Mixed precision as apex had it, carried out by torch.amp: O0 is full precision, O1 to O3 are autocast.

        Models and optimizers are returned as they were given.
        """
        if not enabled or not self._managed:
            return models, optimizers
        if self._precision.apex_configured:
            raise InvalidExperimentException("configure_apex_amp was called twice")
        if self._precision.scaler is not None and self._precision.scaler.is_enabled():
            raise InvalidExperimentException("configure_apex_amp cannot be used together with wrap_scaler or use_amp")
        if self.distributed.size > 1 and num_losses != 1:
            raise InvalidExperimentException(
                f"configure_apex_amp: num_losses={num_losses} cannot be used with several ranks, only 1"
            )
        if self.distributed.size > 1 and self._optimization.aggregation_frequency > 1:
            raise InvalidExperimentException(
                "configure_apex_amp cannot be used with several ranks and aggregation_frequency="
                f"{self._optimization.aggregation_frequency}"
            )
        if self._precision.use_apex_levels(opt_level, loss_scale, min_loss_scale, max_loss_scale):
            given: Any = models
            for model in given if isinstance(given, (list, tuple)) else [given]:
                self._precision.autocast(parallel.bare(model))
        return models, optimizers

    def autocast_forward_pass(self, model: torch.nn.Module) -> torch.nn.Module:
        """Let a model run its forward under autocast, with float32 results."""
        dtype = self._precision.dtype or (torch.float16 if self.device.type == "cuda" else torch.bfloat16)
        return precision.autocast_forward(model, self.device.type, dtype)

    # Training

    def backward(
        self,
        loss: torch.Tensor,
        gradient: torch.Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Compute gradients of a loss, as `loss.backward(...)` does; aggregation and loss scaling are seen to."""
        self._optimization.backward(loss, gradient, retain_graph, create_graph)

    def step_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grads: ClipGrads | None = None,
        auto_zero_grads: bool = True,
        scaler: Any = None,
    ) -> None:
        """Step a wrapped optimizer; under gradient aggregation only on every `aggregation_frequency`-th batch.

        Order: gradients are averaged, `clip_grads` is called with the list of parameters, the optimizer steps, and
        gradients are cleared unless `auto_zero_grads` is false. Pass `scaler` if you scale the loss yourself.
        """
        self._optimization.step(optimizer, clip_grads, auto_zero_grads, scaler)

    def to_device(self, data: Any) -> Any:
        """Move data to this rank's device; batches given to the trial are there already."""
        return to_device(data, self.device, self._warned_types)

    def batch_mover(self) -> Callable[[Any], Any] | None:
        """What the loop does with each batch before the trial gets it; None where batches are left alone."""
        return mover(self.device, self._warned_types) if self.experimental._auto_to_device else None

    def is_epoch_start(self) -> bool:
        """Is the current batch the first of its epoch?"""
        batch_idx, length = self._position()
        return batch_idx % length == 0

    def is_epoch_end(self) -> bool:
        """Is the current batch the last of its epoch?"""
        batch_idx, length = self._position()
        return batch_idx % length == length - 1

    def current_train_epoch(self) -> int:
        """The epoch of the current batch, from 0 on; during a validation that of the last batch trained."""
        batch_idx, length = self._position()
        return batch_idx // length

    def current_train_batch(self) -> int:
        """The number of the current batch, from 0 on; during a validation that of the last one trained."""
        if self._current_batch_idx is None:
            raise InternalException("training has not started, so there is no current batch")
        return self._current_batch_idx

    def _position(self) -> tuple[int, int]:
        batch_idx = self.current_train_batch()
        if self._epoch_length is None:
            raise InternalException("the training data loader is not known yet, so there is no current epoch")
        return batch_idx + self._epoch_offset, self._epoch_length

    # Reducers

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Register a metric over a whole workload or validation: a `MetricReducer`, or a function of all values.

        For a function, an object with a method `update(value)` is returned.
        """
        return self._reducers.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """Begin a new window in all reducers; the loop does so before each report and validation."""
        self._reducers.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """The metrics of the reducers for training, or for validation; all ranks must call it together."""
        return self._reducers.reduce_metrics(for_training)

    def run_cross_slot_reduction(self, reducables: Sequence[Any], gathered: Sequence[Any]) -> dict[str, Any]:
        """The second half of `reduce_metrics`: from what the ranks gathered to metrics."""
        return self._reducers.run_cross_slot_reduction(reducables, gathered)

    # TensorBoard and profiling

    def get_tensorboard_path(self) -> Path:
        """Where TensorBoard files go; without a run (a trial made by hand, to load weights) a temporary place."""
        return self._tensorboard_path if self._tensorboard_path is not None else directory.current()

    def get_enable_tensorboard_logging(self) -> bool:
        """Whether scalars are written to TensorBoard by themselves."""
        return self._enable_tensorboard_logging

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        """Switch the automatic TensorBoard scalars on or off."""
        if not isinstance(enable_tensorboard_logging, bool):
            raise AssertionError(f"set_enable_tensorboard_logging takes a bool, got {enable_tensorboard_logging!r}")
        self._enable_tensorboard_logging = enable_tensorboard_logging

    def get_tensorboard_writer(self) -> SummaryWriter:
        """A `SummaryWriter` in the run's TensorBoard directory; from then on the loop writes through it, too."""
        if self._summary_writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._summary_writer = SummaryWriter(log_dir=str(self.get_tensorboard_path()))
        return self._summary_writer

    def set_profiler(self, *args: Any, **kwargs: Any) -> None:
        """Profile training with `torch.profiler.profile`, which takes these arguments.

        Traces go to the TensorBoard directory, unless `on_trace_ready` says otherwise. A handler that fails is logged.
        """
        names = [name for name in inspect.signature(torch.profiler.profile.__init__).parameters if name != "self"]
        if len(args) > len(names):
            raise TypeError(f"set_profiler takes at most {len(names)} arguments, got {len(args)}")
        for name, value in zip(names, args, strict=False):
            if name in kwargs:
                raise TypeError(f"set_profiler got two values for the argument {name!r}")
            kwargs[name] = value
        handler = kwargs.get("on_trace_ready")
        if handler is None:
            handler = torch.profiler.tensorboard_trace_handler(str(self.get_tensorboard_path()))
        kwargs["on_trace_ready"] = _logging_failures(handler)
        self.profiler = torch.profiler.profile(**kwargs)

    # First generation

    def get_model(self) -> torch.nn.Module:
        """The one model of a first-generation trial."""
        model: torch.nn.Module = _the_only(self.models, "model", "get_model")
        return model

    def get_optimizer(self) -> torch.optim.Optimizer:
        """The one optimizer of a first-generation trial."""
        optimizer: torch.optim.Optimizer = _the_only(self.optimizers, "optimizer", "get_optimizer")
        return optimizer

    def get_lr_scheduler(self) -> LRScheduler | None:
        """The scheduler of a first-generation trial, if it has one."""
        return _the_only(self.lr_schedulers, "scheduler", "get_lr_scheduler") if self.lr_schedulers else None

    def _fitting(self) -> AbstractContextManager[None]:
        return nullcontext() if self._run is None else self._run.fitting()

    def _core_context(self) -> core.Context:
        if self._core is None:
            raise InternalException("this context belongs to no run: use the one that pytorch.init() gives")
        if self._run is not None:
            self._run.check()
        return self._core

    def has_hparams(self) -> bool:
        """Whether `get_hparams` has an answer."""
        return self._hparams is not None

    def get_mixed_precision_level(self) -> str:
        """`optimizations.mixed_precision` of the experiment configuration, in which 0.12 kept it."""
        optimizations = (self._exp_conf or {}).get("optimizations") or {}
        return str(optimizations.get("mixed_precision") or "O0")


class CheckpointLoadContext(PyTorchTrialContext):
    """An unmanaged context for making a trial by hand, to load weights into it."""

    def __init__(self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None) -> None:
        from determined.core import DummyDistributedContext

        super().__init__(
            distributed=DummyDistributedContext(),
            hparams=hparams,
            exp_conf=exp_conf,
            trial_seed=0,
            tensorboard_path=None,
            managed=False,
        )


def _logging_failures(handler: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A trace that cannot be written must not end the training; and raised inside torch's profiler, it would crash."""

    def on_trace_ready(profiler: Any) -> None:
        try:
            handler(profiler)
        except Exception:
            logger.exception("the profiler's on_trace_ready failed; training goes on without that trace")

    return on_trace_ready


def _the_only(members: Sequence[Any], kind: str, method: str) -> Any:
    if not members:
        raise InternalException(
            f"context.{method}() has no {kind} to return yet: it cannot be used in __init__, before the {kind} was made"
        )
    if len(members) > 1:
        raise InvalidExperimentException(
            f"context.{method}() needs exactly one {kind}, and {len(members)} were wrapped; "
            f"use what context.wrap_* returned"
        )
    return members[0]
