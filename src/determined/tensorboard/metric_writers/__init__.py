"""The metric writers of the old harness, for programs that use them directly."""

import sys

from determined.tensorboard.metric_writers import base
from determined.tensorboard.metric_writers.base import BatchMetricWriter, MetricWriter

__all__ = ["BatchMetricWriter", "MetricWriter"]

# Where releases had these classes.
sys.modules[f"{__name__}.callback"] = base
