"""`TorchWriter`: a torch SummaryWriter in the run's TensorBoard directory, for programs older than version 0.21."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from determined.tensorboard import directory
from determined.tensorboard.metric_writers.base import MetricWriter


class TorchWriter(MetricWriter):
    """A metric writer with a `torch.utils.tensorboard.SummaryWriter` as `writer`."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        warnings.warn("TorchWriter is deprecated; use context.get_tensorboard_writer()", FutureWarning, stacklevel=2)
        self.writer: Any = SummaryWriter(log_dir=str(directory.current()))

    def add_scalar(self, name: str, value: int | float | np.ndarray[Any, Any], step: int) -> None:
        """Write one value."""
        self.writer.add_scalar(name, value, step)

    def reset(self) -> None:
        """Close the current file; SummaryWriter opens a new one at the next write."""
        self.writer.close()

    def flush(self) -> None:
        """Write everything to disk."""
        self.writer.flush()
