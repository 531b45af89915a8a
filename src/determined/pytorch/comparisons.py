"""After how many batches a searcher compares this trial with others: it is validated there, so that all are as far."""

from __future__ import annotations

import math

from determined.info import TrialInfo
from determined.pytorch.context import PyTorchTrialContext


def in_batches(
    trial: TrialInfo, context: PyTorchTrialContext, epoch_length: int, epoch_offset: int = 0
) -> tuple[int, ...]:
    """Empty where nothing is compared, or by a time that only the trial itself knows."""
    if trial._time_metric == "batches":
        counts = [math.ceil(rung) for rung in trial._rungs]
    elif trial._time_metric == "epochs":
        counts = [math.ceil(rung) * epoch_length - epoch_offset for rung in trial._rungs]
    elif trial._time_metric == "records":
        counts = [math.ceil(rung / context.get_global_batch_size()) for rung in trial._rungs]
    else:
        counts = []
    return tuple(sorted(count for count in set(counts) if count > 0))
