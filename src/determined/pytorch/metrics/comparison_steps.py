"""Compute after which batches the searcher compares a trial with others.

The trial is validated at these batches, so that all trials are compared after the same amount of training.
"""

from __future__ import annotations

import math

from determined.info import TrialInfo
from determined.pytorch.context import PyTorchTrialContext


def in_batches(
    trial: TrialInfo, context: PyTorchTrialContext, epoch_length: int, epoch_offset: int = 0
) -> tuple[int, ...]:
    """Return the numbers of batches at which the trial is compared, in ascending order.

    The result is empty if the searcher compares no trials, or measures time by a metric that only the trial knows.
    """
    if trial._time_metric == "batches":
        counts = [math.ceil(rung) for rung in trial._rungs]
    elif trial._time_metric == "epochs":
        counts = [math.ceil(rung) * epoch_length - epoch_offset for rung in trial._rungs]
    elif trial._time_metric == "records":
        counts = [math.ceil(rung / context.get_global_batch_size()) for rung in trial._rungs]
    else:
        counts = []
    return tuple(sorted(count for count in set(counts) if count > 0))
