"""A script whose validations and checkpoints count steps differently, and that is paused in the middle."""

import json

import determined as det
from determined import core

info = det.get_cluster_info()
assert info is not None
with core.init() as context:
    epoch = 0
    if info.latest_checkpoint is not None:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            epoch = json.loads((path / "epoch.json").read_text())
    while epoch < 6:
        epoch += 1
        context.train.report_validation_metrics(epoch, {"loss": info.trial.hparams["x"] / epoch, "epochs": epoch})
        with context.checkpoint.store_path({"steps_completed": 1000 * epoch}) as (path, _):
            (path / "epoch.json").write_text(json.dumps(epoch))
        if info.trial._trial_run_id == 1 and epoch == 3:
            raise RuntimeError("once")
        if context.preempt.should_preempt():
            break
