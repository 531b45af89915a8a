"""`PyTorchTrialContext`: the interface between a trial and the library.

Each method delegates to the module that implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import torch

from determined.errors import InternalException, InvalidExperimentException
from determined.pytorch.data.device import choose_device, to_device
from determined.pytorch.experimental_context import PyTorchExperimentalContext
from determined.pytorch.metrics.non_numeric import NonNumericWarnings
from determined.pytorch.metrics.reducer import MetricReducer, ReducerContext
from determined.pytorch.optimization import precision, wrapping
from determined.pytorch.optimization.lr_scheduler import LRScheduler
from determined.pytorch.optimization.precision import Precision
from determined.pytorch.optimization.steps import ClipGrads, Optimization
from determined.pytorch.run.last_fit import LastFit
from determined.pytorch.run.open_run import OpenRun
from determined.pytorch.run.torch_profiler import make_profiler
from determined.tensorboard import directory
from determined.trial import TrialContext, TrialFacts

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from determined import core

_Models = TypeVar("_Models")
_Optimizers = TypeVar("_Optimizers")


class RunParts(NamedTuple):
    """The part of a context that `pytorch.init()` adds to the facts about a trial; None without a run."""

    core_context: core.Context | None = None
    aggregation_frequency: int = 1
    enable_tensorboard_logging: bool = True
    code_dir: Path | None = None  # directory of the code that checkpoints contain; None: they contain no code


class PyTorchTrialContext(TrialContext):
    """The object through which a trial wraps its models and optimizers, trains, and queries its run.

    `pytorch.init()` creates the context of a run: wrapped objects are moved to the device and kept equal over ranks. A
    context without a run (`from_config`, `CheckpointLoadContext`) only registers wrapped objects, so that a trial can
    be created outside a run, for example to load weights.
    """

    def __init__(self, _facts: TrialFacts, _parts: RunParts | None = None) -> None:
        super().__init__(_facts)
        parts = _parts or RunParts()
        ranks, frequency = _facts.distributed, parts.aggregation_frequency
        # bool is a subclass of int, and True would silently mean 1.
        if isinstance(frequency, bool) or not isinstance(frequency, int):
            raise TypeError(f"aggregation_frequency is a whole number, got {frequency!r}")
        if frequency < 1:
            raise ValueError(f"aggregation_frequency is 1 or more, got {frequency!r}")
        self._core = parts.core_context
        self._run: OpenRun | None = None  # set by pytorch.init()
        self._code_dir = parts.code_dir
        # A context without a run only loads weights, and must not initialise an accelerator for that.
        self.device = choose_device(ranks.size, ranks.local_rank) if _facts.belongs_to_run else torch.device("cpu")
        self._precision = Precision(self.device)
        self._optimization = Optimization(frequency, self._precision, belongs_to_run=_facts.belongs_to_run)
        self._reducers = ReducerContext(ranks.allgather)
        # Called for every batch, so the bound methods replace the ones below, which saves a Python call each.
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
        self._enable_tensorboard_logging = parts.enable_tensorboard_logging
        self._summary_writer: SummaryWriter | None = None
        self._warned_types: set[type] = set()
        # A second `fit` in this context continues from here instead of from batch 0.
        self._last_fit: LastFit | None = None
        self._not_numbers = NonNumericWarnings(chief=ranks.rank == 0)
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
        """End the run; for programs and notebooks that do not use `with pytorch.init()`. Further calls do nothing.

        The run is recorded with the outcome of its last `fit`: COMPLETED, PAUSED after an interrupt, ERROR after an
        exception. A run that is still open is closed when the program or the notebook's kernel exits.
        """
        if self._run is not None:
            self._run.close()

    # Wrapping

    def wrap_model(
        self, model: torch.nn.Module, *, compile: bool | dict[str, Any] = False, **ddp_options: Any
    ) -> torch.nn.Module:
        """Register a model and return it, moved to the device, kept equal over ranks and saved in checkpoints.

        With several ranks the result is wrapped in torch's `DistributedDataParallel`, so use it instead of the
        argument.

        Args:
            model: the model, a `torch.nn.Module`. TypeError is raised for anything else.
            compile: True, or a dict of options for `torch.compile`, compiles the model in place.
            ddp_options: further keywords go to `DistributedDataParallel`, for example `find_unused_parameters=True`.
        """
        return wrapping.wrap_model(self, model, compile=compile, ddp_options=ddp_options)

    def wrap_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,
        average_aggregated_gradients: bool | None = None,
    ) -> torch.optim.Optimizer:
        """Register an optimizer and return it, so that `step_optimizer` can step it and checkpoints hold its state.

        Args:
            optimizer: the optimizer, created from parameters of models that were wrapped before.
            backward_passes_per_step: at least 1, else unused; it configured a backend of older releases.
            fp16_compression: exchange gradients between ranks in float16. Off by default.
            average_aggregated_gradients: divide gradients by the aggregation frequency before a step. On by default.
        """
        return wrapping.wrap_optimizer(
            self, optimizer, backward_passes_per_step, fp16_compression, average_aggregated_gradients
        )

    def wrap_lr_scheduler(self, lr_scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int = 1) -> Any:
        """Register a learning-rate scheduler and return it.

        Args:
            lr_scheduler: the scheduler; its optimizer must have been wrapped before.
            step_mode: when the loop steps it, see `LRScheduler.StepMode`. `ReduceLROnPlateau` requires `MANUAL_STEP`.
            frequency: step only every `frequency`-th time.

        Raises InvalidExperimentException if the optimizer or the step mode does not fit.
        """
        wrapping.wrap_lr_scheduler(self, lr_scheduler, step_mode, frequency)
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        """Register a gradient scaler that the program uses itself, so that checkpoints hold its state.

        Call it before `wrap_model`. It cannot be combined with `use_amp` or `configure_apex_amp`.
        """
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
        # The default of apex.
        max_loss_scale: float | None = 2.0**24,
    ) -> tuple[_Models, _Optimizers]:
        """Enable mixed precision with the arguments of apex, implemented by torch.amp.

        `opt_level` O0 is full precision; O1, O2 and O3 all use autocast. Models and optimizers are returned unchanged.
        `loss_scale`, `min_loss_scale` and `max_loss_scale` configure the gradient scaler; the other options have no
        effect.
        """
        if enabled and self._belongs_to_run:
            wrapping.configure_apex_amp(
                self,
                models,
                opt_level=opt_level,
                loss_scale=loss_scale,
                num_losses=num_losses,
                min_loss_scale=min_loss_scale,
                max_loss_scale=max_loss_scale,
            )
        return models, optimizers

    def autocast_forward_pass(self, model: torch.nn.Module) -> torch.nn.Module:
        """Change a model so that its forward runs under autocast and returns float32 results; return the model."""
        # bfloat16 elsewhere: CPUs compute in it, and it needs no gradient scaler.
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
        """Compute the gradients of a loss, like `loss.backward(...)`, with loss scaling if it is enabled.

        Call it instead of `loss.backward()`: otherwise automatic mixed precision does not scale the loss.
        """
        self._optimization.backward(loss, gradient, retain_graph, create_graph)

    def step_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grads: ClipGrads | None = None,
        auto_zero_grads: bool = True,
        scaler: Any = None,
    ) -> None:
        """Step a wrapped optimizer; with gradient aggregation, only on every `aggregation_frequency`-th batch.

        Args:
            optimizer: an optimizer that `wrap_optimizer` returned.
            clip_grads: called with the list of parameters after gradients were averaged, before the optimizer steps.
            auto_zero_grads: clear gradients after the step (default). False is not allowed with gradient aggregation.
            scaler: the gradient scaler, if the program scales the loss itself.
        """
        self._optimization.step(optimizer, clip_grads, auto_zero_grads, scaler)

    def to_device(self, data: Any) -> Any:
        """Move data to this rank's device; batches passed to the trial are already there."""
        return to_device(data, self.device, self._warned_types)

    def is_epoch_start(self) -> bool:
        """Return whether the current batch is the first of its epoch."""
        # With the epoch offset: epochs are counted by passes over
        # the data, which other numbers of ranks divided differently.
        batch_idx, length = self._position()
        return batch_idx % length == 0

    def is_epoch_end(self) -> bool:
        """Return whether the current batch is the last of its epoch."""
        batch_idx, length = self._position()
        return batch_idx % length == length - 1

    def current_train_epoch(self) -> int:
        """Return the epoch of the current batch, counted from 0; in a validation, that of the last trained batch."""
        batch_idx, length = self._position()
        return batch_idx // length

    def current_train_batch(self) -> int:
        """Return the number of the current batch, counted from 0; in a validation, that of the last trained batch."""
        if self._current_batch_idx is None:
            raise InternalException("training has not started, so there is no current batch")
        return self._current_batch_idx

    def _position(self) -> tuple[int, int]:
        """Return the current batch number plus the epoch offset, and the length of an epoch."""
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
        """Register a reducer: a metric computed over all values of a workload or validation, on all ranks.

        Args:
            reducer: a `MetricReducer`, or a function of the list of all values.
            name: the metric's name. Without it, the reducer must return a dict of metrics.
            for_training: include the metric in training reports.
            for_validation: include the metric in validation reports.

        Returns the reducer; for a function, an object with a method `update(value)`.
        """
        return self._reducers.wrap_reducer(reducer, name, for_training, for_validation)

    def reset_reducers(self) -> None:
        """Reset all reducers; the loop calls it at the start of each training workload and validation."""
        self._reducers.reset_reducers()

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """Return the metrics of all reducers for training or for validation. All ranks must call it."""
        return self._reducers.reduce_metrics(for_training)

    def run_cross_slot_reduction(self, reducables: Sequence[Any], gathered: Sequence[Any]) -> dict[str, Any]:
        """Return the metrics of `reducables`, computed from the values that were gathered from all ranks."""
        return self._reducers.run_cross_slot_reduction(reducables, gathered)

    # TensorBoard and profiling

    def get_tensorboard_path(self) -> Path:
        """Return the directory for TensorBoard files; a temporary one if the context belongs to no run."""
        return self._tensorboard_path if self._tensorboard_path is not None else directory.current()

    def get_enable_tensorboard_logging(self) -> bool:
        """Return whether the loop writes metrics as TensorBoard scalars."""
        return self._enable_tensorboard_logging

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        """Enable or disable writing metrics as TensorBoard scalars."""
        if not isinstance(enable_tensorboard_logging, bool):
            raise AssertionError(f"set_enable_tensorboard_logging takes a bool, got {enable_tensorboard_logging!r}")
        self._enable_tensorboard_logging = enable_tensorboard_logging

    def get_tensorboard_writer(self) -> SummaryWriter:
        """Return a `SummaryWriter` for the run's TensorBoard directory.

        After the first call the loop writes its scalars through the same writer.
        """
        if self._summary_writer is None:
            # Importing tensorboard takes long, and most programs never ask for a writer.
            from torch.utils.tensorboard import SummaryWriter

            self._summary_writer = SummaryWriter(log_dir=str(self.get_tensorboard_path()))
        return self._summary_writer

    def set_profiler(self, *args: Any, **kwargs: Any) -> None:
        """Profile training with `torch.profiler.profile`, to which all arguments are passed.

        Traces are written to the TensorBoard directory unless `on_trace_ready` is given. If that handler fails, the
        error is logged and training continues.
        """
        self.profiler = make_profiler(args, kwargs, self.get_tensorboard_path())

    # First generation

    def get_model(self) -> torch.nn.Module:
        """Return the only model of a first-generation trial."""
        model: torch.nn.Module = _single_member(self.models, "model", "get_model")
        return model

    def get_optimizer(self) -> torch.optim.Optimizer:
        """Return the only optimizer of a first-generation trial."""
        optimizer: torch.optim.Optimizer = _single_member(self.optimizers, "optimizer", "get_optimizer")
        return optimizer

    def get_lr_scheduler(self) -> LRScheduler | None:
        """Return the scheduler of a first-generation trial, or None if it has none."""
        return _single_member(self.lr_schedulers, "scheduler", "get_lr_scheduler") if self.lr_schedulers else None

    def _fitting(self) -> AbstractContextManager[None]:
        """Return a context manager that records the outcome of a `fit` in the run, if there is one."""
        return nullcontext() if self._run is None else self._run.fitting()

    def _core_context(self) -> core.Context:
        """Return the core context of the run; raise InternalException if there is none or it has ended."""
        if self._core is None:
            # A context from `from_config` has everything of a context but a run.
            raise InternalException("this context belongs to no run: use the one that pytorch.init() gives")
        if self._run is not None:
            self._run.check()
        return self._core


class CheckpointLoadContext(PyTorchTrialContext):
    """A context for creating a trial outside a run, to load weights into it."""

    def __init__(self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None) -> None:
        from determined.core import DummyDistributedContext

        super().__init__(TrialFacts(DummyDistributedContext(), hparams, exp_conf, trial_seed=0))


def _single_member(members: Sequence[Any], kind: str, method: str) -> Any:
    """Return the single member; raise an error that names the context method `method` if there are none or several."""
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
