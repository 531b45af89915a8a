"""The PyTorch training API: `PyTorchTrial`, its context, `Trainer`, data loaders, callbacks and reducers.

This module only re-exports the public names (`__all__`) and the private names that existing programs import.
"""

import gc
import sys

import torch  # noqa: F401  (outside the pause below: only our own imports are to run without garbage collection)

# Objects created by these imports live as long as the process. Without the pause, the interpreter would run a full
# collection here, which traverses all objects of torch: 80 ms, more than these imports take themselves.
_collects = gc.isenabled()
gc.disable()
try:
    from determined.pytorch import samplers
    from determined.pytorch.callbacks import ClipGradsL2Norm, ClipGradsL2Value, PyTorchCallback
    from determined.pytorch.checkpoint.load_trial import load_trial_from_checkpoint_path
    from determined.pytorch.compatibility.internals import _log_tb_metrics as _log_tb_metrics
    from determined.pytorch.compatibility.internals import _PyTorchTrialController as _PyTorchTrialController
    from determined.pytorch.compatibility.internals import _TrainBoundary as _TrainBoundary
    from determined.pytorch.compatibility.internals import reset_parameters
    from determined.pytorch.context import CheckpointLoadContext, PyTorchTrialContext
    from determined.pytorch.controller import PyTorchTrialController
    from determined.pytorch.data.device import data_length, to_device
    from determined.pytorch.data.loader import DataLoader, TorchData
    from determined.pytorch.data.loader import _Data as _Data
    from determined.pytorch.experimental_context import PyTorchExperimentalContext
    from determined.pytorch.loop import ShouldExit
    from determined.pytorch.metrics.reducer import MetricReducer, Reducer, ReducerContext, SimpleReducer, simple_reduce
    from determined.pytorch.optimization.lr_scheduler import LRScheduler
    from determined.pytorch.plan import BoundaryType
    from determined.pytorch.run.initialize import init
    from determined.pytorch.samplers import (
        DistributedBatchSampler,
        RepeatBatchSampler,
        SkipBatchSampler,
        adapt_batch_sampler,
    )
    from determined.pytorch.state import LoopState
    from determined.pytorch.trainer import Trainer
    from determined.pytorch.trial import PyTorchTrial
    from determined.pytorch.units import Batch, Epoch, TrainUnit
finally:
    if _collects:
        gc.enable()

# Programs written against earlier releases import private names from private modules, so each of those module names
# is an alias of this package, which holds all of them.
for _name in ("_pytorch_trial", "_pytorch_context", "_data", "_callback", "_lr_scheduler", "_reducer"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]
_PyTorchReducerContext = ReducerContext
_ShouldExit = ShouldExit
_SimpleReducer = SimpleReducer
_TrainBoundaryType = BoundaryType
_TrialState = LoopState
_simple_reduce_metrics = simple_reduce

# Assigned here because the controller's module imports the trial's.
PyTorchTrial.trial_controller_class = _PyTorchTrialController

__all__ = [
    "PyTorchTrial",
    "PyTorchTrialContext",
    "PyTorchExperimentalContext",
    "CheckpointLoadContext",
    "init",
    "Trainer",
    "TrainUnit",
    "Batch",
    "Epoch",
    "ShouldExit",
    "DataLoader",
    "TorchData",
    "data_length",
    "to_device",
    "samplers",
    "adapt_batch_sampler",
    "RepeatBatchSampler",
    "DistributedBatchSampler",
    "SkipBatchSampler",
    "LRScheduler",
    "Reducer",
    "MetricReducer",
    "PyTorchCallback",
    "ClipGradsL2Norm",
    "ClipGradsL2Value",
    "load_trial_from_checkpoint_path",
    "reset_parameters",
    "PyTorchTrialController",
]
