"""A script of 0.18 to 0.37: the searcher defines how long to train, one operation after another."""

from __future__ import annotations

import determined as det
from determined import core

info = det.get_cluster_info()
assert info is not None
with core.init() as context:
    done = 0
    batches = 1 if context.searcher.get_configured_units() is core.Unit.BATCHES else 4
    for operation in context.searcher.operations():
        while done < operation.length:
            done += 1
            operation.report_progress(done)
            if context.preempt.should_preempt():
                break
        if batches > 1:  # before the end of the operation; the searcher counts epochs
            context.train.report_validation_metrics(batches * done - 2, {"validation_loss": 9.0})
        loss = info.trial.hparams["lr"] / done
        context.train.report_validation_metrics(batches * done, {"other": 0.5})
        operation.report_completed(loss)
