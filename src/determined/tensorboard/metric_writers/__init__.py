"""The metric writers of the old harness, for programs that use them directly."""

from determined.tensorboard.metric_writers.base import BatchMetricWriter, MetricWriter

__all__ = ["BatchMetricWriter", "MetricWriter"]
