"""One worker's view of its run: metrics, checkpoints, ranks, preemption."""

import sys

from determined.core.checkpoint import CheckpointContext, DownloadMode
from determined.core.context import Context, init
from determined.core.distributed import DistributedContext, DummyDistributedContext
from determined.core.preempt import PreemptContext, PreemptMode
from determined.core.profiler import ProfilerContext
from determined.core.searcher import SearcherContext, SearcherMode, SearcherOperation, Unit
from determined.core.tensorboard import TensorboardMode
from determined.core.train import EarlyExitReason, TrainContext

# A run by hand uses the same classes as any other; older code knows them by these names too.
DummyCheckpointContext = CheckpointContext
DummyPreemptContext = PreemptContext
DummyProfilerContext = ProfilerContext
DummySearcherContext = SearcherContext
DummySearcherOperation = SearcherOperation
DummyTrainContext = TrainContext

# Where the documentation of the last releases places DistributedContext.
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
