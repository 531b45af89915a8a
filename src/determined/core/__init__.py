"""The Core API: metrics, checkpoints, ranks and preemption of one worker's run."""

import sys

from determined.core.checkpoint import CheckpointContext, DownloadMode
from determined.core.context import Context
from determined.core.distributed import DistributedContext, DummyDistributedContext
from determined.core.initialize import init
from determined.core.preempt import PreemptContext, PreemptMode
from determined.core.profiler import ProfilerContext
from determined.core.searcher import SearcherContext, SearcherMode, SearcherOperation, Unit
from determined.core.tensorboard import TensorboardMode
from determined.core.train import EarlyExitReason, TrainContext

# A standalone run uses the same classes as a trial of a search; older programs use these names for it.
DummyCheckpointContext = CheckpointContext
DummyPreemptContext = PreemptContext
DummyProfilerContext = ProfilerContext
DummySearcherContext = SearcherContext
DummySearcherOperation = SearcherOperation
DummyTrainContext = TrainContext

# Later releases of Determined document DistributedContext in this module.
sys.modules[f"{__name__}._distributed"] = sys.modules[__name__]

__all__ = [
    "init",
    "Context",
    "DistributedContext",
    "DummyDistributedContext",
    "CheckpointContext",
    "DownloadMode",
    "TrainContext",
    "EarlyExitReason",
    "PreemptContext",
    "PreemptMode",
    "SearcherContext",
    "SearcherOperation",
    "SearcherMode",
    "Unit",
    "ProfilerContext",
    "TensorboardMode",
    "DummyCheckpointContext",
    "DummyPreemptContext",
    "DummyProfilerContext",
    "DummySearcherContext",
    "DummySearcherOperation",
    "DummyTrainContext",
]
