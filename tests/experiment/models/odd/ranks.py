"""A script in which every rank reports, the chief last, and the other ranks report better values."""

import determined as det
from determined import core

info = det.get_cluster_info()
assert info is not None
distributed = core.DistributedContext.from_torch_distributed()
rank = distributed.rank
with core.init(distributed=distributed) as context:
    for epoch in range(1, 5):
        loss = info.trial.hparams["x"] if rank == 0 else -1.0
        reports = {"loss": loss, "epochs": epoch, f"of rank {rank}": epoch}
        if rank == 1:
            context.train.report_validation_metrics(epoch, reports)
            # Beyond every rung, if reports of this rank counted.
            context.train.report_validation_metrics(100 + epoch, {"loss": -2.0, "epochs": 100 + epoch})
        distributed.allgather(None)
        if rank == 0:
            context.train.report_validation_metrics(epoch, reports)
            with context.checkpoint.store_path({"steps_completed": epoch}):
                pass
        assert context.train.get_experiment_best_validation() != -1.0
        if context.preempt.should_preempt():
            break
    context.train.set_metadata({f"of rank {rank}": info.trial.trial_id})
