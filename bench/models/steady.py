"""A trial of equal steps of a few milliseconds: ten reports a second, a validation every second."""

import determined as det
from determined import core

WORK = range(100_000)

info = det.get_cluster_info()
assert info is not None
rate, steps = info.trial.hparams["rate"], info.trial.hparams["steps"]
with core.init() as context:
    for step in range(1, steps + 1):
        sum(WORK)
        if step % 50 == 0:
            context.train.report_training_metrics(step, {"loss": rate / step, "accuracy": 1 - rate / step})
        if step % 500 == 0 or step == steps:
            context.train.report_validation_metrics(step, {"loss": rate / step})
        if context.preempt.should_preempt():
            break
