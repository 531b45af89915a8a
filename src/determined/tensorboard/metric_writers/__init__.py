"""Metric writers of Determined's former training harness, kept for programs that use them directly."""

import sys

from determined.tensorboard.metric_writers import base
from determined.tensorboard.metric_writers.base import BatchMetricWriter, MetricWriter

__all__ = ["BatchMetricWriter", "MetricWriter"]

# The module in which Determined's releases had these classes.
sys.modules[f"{__name__}.callback"] = base
