"""Lengths and periods of a configuration, of any release, as units of training."""

from __future__ import annotations

from typing import get_args

from determined.config.length import LengthUnit
from determined.config.stored import PlainLength, StoredConfig
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.units import Batch, TrainUnit


def configured_length(config: StoredConfig, context: PyTorchTrialContext) -> TrainUnit | None:
    """Return the training length in the searcher block, or None if it does not say how many batches to train.

    Release 0.12 counted steps of usually 100 batches.
    """
    searcher = config.searcher
    if searcher.max_length is not None:
        return train_unit(searcher.max_length, context)
    if searcher.max_time is not None:
        unit = searcher.time_metric or "batches"
        # Other time metrics are reported by the trial itself, and do not say how many batches that takes.
        return train_unit({unit: searcher.max_time}, context) if unit in get_args(LengthUnit) else None
    steps = searcher.target_trial_steps if searcher.max_steps is None else searcher.max_steps
    return None if steps is None else Batch(steps * config.batches_per_step)


def train_unit(length: PlainLength, context: PyTorchTrialContext) -> TrainUnit:
    """Return a length of a configuration: a number of batches, or a dict with one unit."""
    if isinstance(length, int):
        return Batch(length)
    if set(length) - set(get_args(LengthUnit)):
        raise ValueError(f"a length is given in batches, records or epochs, got {length!r}")
    # Only records need the batch size.
    size = context.get_global_batch_size() if "records" in length else None
    return TrainUnit._from_values(**length, global_batch_size=size)
