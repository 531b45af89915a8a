"""A script of 0.18 to 0.37 that waits between a validation and the end of its operation."""

import time

import determined as det
from determined import core

info = det.get_cluster_info()
assert info is not None
with core.init() as context:
    batches = 0
    for operation in context.searcher.operations():
        batches = 10 * operation.length
        context.train.report_validation_metrics(batches, {"loss": info.trial.hparams["x"]})
        time.sleep(1.6)  # the runner polls about once a second
        operation.report_completed(info.trial.hparams["x"])
