"""A script that reports an unusual value as the searcher's metric or as its time metric."""

import numpy as np

import determined as det
from determined import core

ODD = {
    "huge": (10**400, None),
    "minus huge": (-(10**400), None),
    "nested": ({"inner": [10**400]}, None),
    "text": ("-1", None),
    "truth": (True, None),
    "wide": (np.longdouble("-inf"), None),
    "huge time": (0.5, 10**400),
    "no time": (0.5, float("nan")),
    "sound": (0.25, None),
}

info = det.get_cluster_info()
assert info is not None
metric, time = list(ODD.values())[info.trial.trial_id - 1]
with core.init() as context:
    for epoch in range(1, 4):
        epochs = epoch if time is None else time
        context.train.report_validation_metrics(epoch, {"loss": metric, "epochs": epochs})
        with context.checkpoint.store_path({"steps_completed": epoch}):
            pass
        if context.preempt.should_preempt():
            break
