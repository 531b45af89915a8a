"""The `optimizations` and `profiling` blocks: gradient aggregation and measurements of the machine."""

from __future__ import annotations

from typing import Annotated, Literal

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.validators import Count, Flag, PositiveCount, Text


class Optimizations(Block):
    """The `optimizations` block.

    The first three fields apply to trial classes; the others, for Horovod and apex, do nothing.
    """

    aggregation_frequency: PositiveCount = 1
    average_aggregated_gradients: Flag = True
    gradient_compression: Flag = False
    average_training_metrics: Flag | None = None
    mixed_precision: Annotated[Literal["O0", "O1", "O2", "O3"], validators.choice("O0", "O1", "O2", "O3")] | None = None
    tensor_fusion_threshold: Count | None = None
    tensor_fusion_cycle_time: Count | None = None
    auto_tune_tensor_fusion: Flag | None = None
    grad_updates_size_file: Text | None = None


class Profiling(Block):
    """The `profiling` block. `enabled` measures the machine during training; the other fields do nothing since 0.30."""

    enabled: Flag = False
    begin_on_batch: Count | None = None
    end_after_batch: Count | None = None
    sync_timings: Flag | None = None
